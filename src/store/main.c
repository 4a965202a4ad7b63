/* mooncake_store: lends memory of this machine to a pool. */
#include "store/program.h"

static mooncake_err configure(const void *target, struct mc_store_config *out)
{
    *out = *(const struct mc_store_config *)target;
    return MOONCAKE_OK;
}

int main(int argc, char **argv)
{
    struct mc_store_config config = {0};
    struct mc_store_program program = {
        .name = "mooncake_store",
        .synopsis = "mooncake_store --master=HOST:PORT --segment=SIZE [...]",
        .target = &config,
        .configure = configure,
    };

    program.options = mc_store_option_table(&program.options_count);
    return mc_store_program_main(&program, argc, argv);
}
