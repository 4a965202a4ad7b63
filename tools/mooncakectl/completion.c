/*
 * `mooncakectl completion bash`: a script that completes commands, the options that the command at
 * hand takes, and file names where a command takes a file.
 */
#include "completion.h"

#include <stdio.h>
#include <string.h>

#include "args.h"

static void print_options(unsigned options)
{
    for (size_t i = 0; i < MC_CTL_OPTIONS_COUNT; i++) {
        if ((options & MC_OPTION_BIT(i)) != 0) {
            (void)printf(" --%s%s", mc_option_name(i), mc_option_takes_value(i) ? "=" : "");
        }
    }
}

static void print_commands(void)
{
    for (size_t i = 0; mc_command_at(i) != NULL; i++) {
        (void)printf("%s%s", i == 0 ? "" : " ", mc_command_at(i)->name);
    }
}

static void print_bash(void)
{
    (void)fputs(
        "# bash completion for mooncakectl; made by: mooncakectl completion bash\n"
        "_mooncakectl()\n"
        "{\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} command= options= i\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        case ${COMP_WORDS[i]} in\n"
        "        -* | = | *:* | :) ;;\n"
        "        *) [[ ${COMP_WORDS[i - 1]} == = ]] || { command=${COMP_WORDS[i]}; break; } "
        ";;\n"
        "        esac\n"
        "    done\n"
        "    case $command in\n",
        stdout);
    for (size_t i = 0; mc_command_at(i) != NULL; i++) {
        if (mc_command_at(i)->options != 0) {
            (void)printf("    %s) options=\"", mc_command_at(i)->name);
            print_options(mc_command_at(i)->options);
            (void)fputs(" \" ;;\n", stdout);
        }
    }
    (void)fputs("    esac\n"
                "    COMPREPLY=()\n"
                "    if [[ $word == -* ]]; then\n"
                "        COMPREPLY=($(compgen -W \"$options",
                stdout);
    print_options(MC_COMMON_OPTIONS);
    (void)fputs("\" -- \"$word\"))\n"
                "        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
                "    elif [[ -z $command || $command == help ]]; then\n"
                "        COMPREPLY=($(compgen -W \"",
                stdout);
    print_commands();
    (void)fputs("\" -- \"$word\"))\n"
                "    elif [[ $command == put || $command == get || $command == diag ]]; then\n"
                "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
                "    elif [[ $command == completion ]]; then\n"
                "        COMPREPLY=($(compgen -W bash -- \"$word\"))\n"
                "    fi\n"
                "} &&\n"
                "    complete -F _mooncakectl mooncakectl\n",
                stdout);
}

enum mc_exit mc_cmd_completion(struct mc_ctl *ctl)
{
    if (strcmp(ctl->words[0], "bash") != 0) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE,
                             "completion: \"%.80s\" is no shell known here: bash", ctl->words[0]);
    }
    print_bash();
    return MC_EXIT_OK;
}
