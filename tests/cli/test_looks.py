#!/usr/bin/env python3
"""mooncakectl on a client library with fixed answers: parsing, looks, exit statuses, files."""

import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)

ERRORS = {"OK": 0, "ENOENT": 1, "EEXIST": 1, "EBADKEY": 2, "ERPC": 3, "ETIMEDOUT": 3,
          "ETRANSFER": 3, "ENOSPACE": 4, "EINTERNAL": 4, "ECHECKSUM": 4, "EUNAVAILABLE": 4}


def run(*args, data=b"", stdout=subprocess.PIPE, env=None):
    """Exit status, stdout, stderr."""
    result = subprocess.run([PROGRAM, *args], input=data, stdout=stdout, stderr=subprocess.PIPE,
                            timeout=60, check=False, env=env)
    return result.returncode, result.stdout, result.stderr.decode()


def on_terminal(env, *args):
    """What is written to a terminal."""
    ours, theirs = os.openpty()
    try:
        with subprocess.Popen([PROGRAM, *args], stdin=subprocess.DEVNULL, stdout=theirs,
                              env=env) as process:
            os.close(theirs)
            drawn = b""
            try:
                while True:
                    drawn += os.read(ours, 1 << 16)
            except OSError: # nobody has the other side any more, and all of it has come
                pass
        if process.returncode != 0:
            raise AssertionError(f"{args}: exit status {process.returncode}")
        return drawn
    finally:
        os.close(ours)


def complete(line):
    """What bash offers for the last word of a command line."""
    script = """
        source <("$1" completion bash) || exit 1
        IFS=' ' read -ra COMP_WORDS <<< "$2"
        [[ $2 == *' ' ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        compopt() { :; }
        _mooncakectl
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    result = subprocess.run(["bash", "-c", script, "bash", PROGRAM, line], stdout=subprocess.PIPE,
                            timeout=30, check=True, text=True)
    return result.stdout.split()


class Completion(unittest.TestCase):
    def test_commands(self):
        commands = json.loads(run("help", "--json")[1])["commands"]
        self.assertEqual(complete("mooncakectl "), list(commands))
        self.assertEqual(complete("mooncakectl seg"), ["segments"])
        self.assertEqual(complete("mooncakectl --master=host:1 help stat"), ["status"])

    def test_options_of_the_command_at_hand(self):
        self.assertIn("--limit=", complete("mooncakectl ls --"))
        self.assertIn("--json", complete("mooncakectl ls --"))
        self.assertNotIn("--force", complete("mooncakectl ls --"))
        self.assertEqual(complete("mooncakectl rm --fo"), ["--force"])

    def test_another_shell(self):
        status, _, err = run("completion", "fish")
        self.assertEqual(status, 2)
        self.assertIn("bash", err)


class Usage(unittest.TestCase):
    def assert_usage(self, args, *words):
        status, out, err = run(*args)
        self.assertEqual(status, 2, err)
        self.assertEqual(out, b"")
        for word in words:
            self.assertIn(word, err)
        status, out, _ = run("--json", *args)
        self.assertEqual(status, 2)
        self.assertIn(words[0], json.loads(out)["error"]["message"])

    def test_mistyped_words_get_a_suggestion(self):
        self.assert_usage(["stauts"], 'unknown command "stauts"', 'did you mean "status"?')
        self.assert_usage(["segmnets"], 'did you mean "segments"?')
        self.assert_usage(["xyzzy"], 'unknown command "xyzzy"', "mooncakectl help lists")
        self.assert_usage(["ls", "--limt", "3"], 'unknown option "--limt"',
                          'did you mean "--limit"?')
        self.assert_usage(["ls", "--xyzzy"], 'unknown option "--xyzzy"', "help lists the options")
        self.assert_usage(["help", "statu"], 'did you mean "status"?')
        self.assert_usage(["x" * 5000], "unknown command")
        self.assert_usage(["--" + "x" * 5000], "unknown option")

    def test_wrong_command_lines(self):
        self.assert_usage([], "say what to do")
        self.assert_usage(["put", "key"], "put: too few words", "mooncakectl put KEY FILE|-")
        self.assert_usage(["status", "now"], "status: too many words")
        self.assert_usage(["exist"], "exist: too few words")
        self.assert_usage(["status", "--limit=3"], "status does not take --limit")
        self.assert_usage(["status", "--master"], "--master needs a value")
        self.assert_usage(["rm", "a", "--force=yes"], "--force takes no value")
        self.assert_usage(["rm"], "rm: name keys, or give --pattern")
        self.assert_usage(["rm", "a", "--all"], "rm: name keys, or give --pattern")
        self.assert_usage(["status", "-x"], 'unknown option "-x"', "goes after --")
        status, out, _ = run("ls", "--null", "--json")
        self.assertEqual(status, 2)
        self.assertIn("ls: choose one", json.loads(out)["error"]["message"])
        for bad in ("0", "-1", "", "x", "9s9", "25h", "18446744073709551616", "1.5s"):
            self.assert_usage(["status", "--timeout=" + bad], f'--timeout: "{bad}" is not a time')
        for bad in ("0", "-1", "", "x", "9223372036854775808"):
            self.assert_usage(["ls", "--limit=" + bad], f'--limit: "{bad}" is not a number')
        self.assert_usage(["put", "k", "-", "--replicas=9"], '--replicas: "9" is not a number')

    def test_a_value_on_stdout_is_no_json(self):
        status, out, err = run("get", "key", "--json")
        self.assertEqual(status, 2)
        self.assertIn("name a FILE", json.loads(out)["error"]["message"])
        self.assertIn("name a FILE", err)

    def test_help_and_version_need_no_pool(self):
        for args in (["help"], ["--help"], ["-h"], ["--help", "--master=nobody:1"]):
            status, out, err = run(*args)
            self.assertEqual((status, err), (0, ""))
            for word in (b"put", b"segments", b"--master", b"Exit status", b"  3  "):
                self.assertIn(word, out)
            self.assertLessEqual(max(map(len, out.split(b"\n"))), 100)
        commands = json.loads(run("help", "--json")[1])["commands"]
        for command in commands:
            alone = command in ("help", "bench")  # the latter's --help is another program's
            for args in (["help", command], [command, "--help"])[:1 if alone else 2]:
                status, out, err = run(*args)
                self.assertEqual((status, err), (0, ""))
                self.assertTrue(out.startswith(b"mooncakectl " + command.encode()), out)
        self.assertIn(b"(library 9.8.7)", run("version")[1])
        self.assertIn(b"(library 9.8.7)", run("--version")[1])
        self.assertEqual(json.loads(run("version", "--json")[1])["library"], "9.8.7")

    def test_options_stand_anywhere_and_in_each_form(self):
        for args in (["--timeout=1500ms", "status"], ["status", "--timeout", "2"],
                     ["--time" "out=1m", "--json", "status"]):
            self.assertEqual(run(*args)[0], 0, args)
        self.assertEqual(run("put", "options", "-", "--replicas", "3", "--soft_pin",
                             "--hard-pin", "--upsert")[0], 0)
        self.assertEqual(run("exist", "--", "--json")[1], b"yes --json\n")


class Failures(unittest.TestCase):
    def test_each_error_has_its_exit_status_and_its_sentence(self):
        for name, wanted in ERRORS.items():
            for args in (["put", name, "-"], ["get", name], ["key", name]):
                status, out, err = run(*args)
                self.assertEqual(status, wanted, (args, err))
                if wanted != 0:
                    self.assertEqual(out, b"")
                    self.assertIn(f'"{name}": the detail of {name} [{name} -', err)
            status, out, _ = run("put", name, "-", "--json")
            self.assertEqual(status, wanted)
            if wanted != 0:
                error = json.loads(out)["error"]
                self.assertEqual(error["name"], name)
                self.assertLess(error["code"], 0)

    def test_a_pool_out_of_reach(self):
        for command in (["status"], ["ls"], ["exist", "k"], ["put", "k", "-"], ["get", "k"]):
            status, out, err = run("--master=nobody:1", *command)
            self.assertEqual((status, out), (3, b""))
            self.assertIn("cannot reach the pool (address from --master): master nobody:1 refuses "
                      "connections", err)
            self.assertIn("--master=HOST:PORT, MOONCAKE_MASTER or a file", err)
        status, out, _ = run("--master=nobody:1", "ls", "--json")
        self.assertEqual((status, json.loads(out)["error"]["name"]), (3, "ERPC"))
        status, _, err = run("--master=bad", "status")
        self.assertEqual(status, 2)
        self.assertIn("has no port", err)
        status, _, err = run("--master=lost", "status")
        self.assertEqual(status, 3)
        self.assertIn("no answer from lost within 30 s", err)

    def test_batches_end_with_the_worst_of_their_items(self):
        self.assertEqual(run("exist", "a", "b")[:2], (0, b"yes a\nyes b\n"))
        self.assertEqual(run("exist", "a", "ENOENT")[:2], (1, b"yes a\nno  ENOENT\n"))
        status, out, err = run("exist", "ERPC", "ENOENT", "a")
        self.assertEqual((status, out), (3, b"no  ENOENT\nyes a\n"))
        self.assertIn("ERPC: remote procedure call failed [ERPC -900]", err)
        status, out, _ = run("exist", "a", "ENOENT", "EBADKEY", "odd\udcff", "--json")
        self.assertEqual(status, 2)
        keys = json.loads(out)["keys"]
        self.assertEqual(keys[0], {"key": "a", "exists": True})
        self.assertEqual(keys[1], {"key": "ENOENT", "exists": False})
        self.assertEqual((keys[2]["error"], keys[2]["code"]), ("EBADKEY", -400))
        self.assertEqual(keys[3], {"key": {"hex": "6f6464ff"}, "exists": True})
        self.assertEqual(run("rm", "a", "ENOENT")[:2], (1, b"removed a\nno such key: ENOENT\n"))
        status, _, err = run("rm", "ELEASED")
        self.assertEqual(status, 4)
        self.assertIn("use --force", err)
        self.assertEqual(run("rm", "--force", "ELEASED")[:2], (0, b"removed ELEASED\n"))
        text = run("rm", "--all")[1]
        self.assertIn(b"removed 1,234,567\nleft 6 that are leased: try", text)
        self.assertIn(b"\nleft 2 that are being written", text)
        self.assertEqual(json.loads(run("rm", "--all", "--force", "--json")[1]),
                         {"removed": 1234567, "left": 2, "left_leased": 0, "left_writing": 2})

    def test_output_that_cannot_be_written_is_no_success(self):
        for args in (["status"], ["ls"], ["segments", "--json"], ["get", "key"]):
            with open("/dev/full", "wb") as full:
                status, _, err = run(*args, stdout=full)
            self.assertEqual(status, 4, args)
            self.assertIn("cannot write", err)
            self.assertIn("No space left", err)

    def test_a_reader_that_goes_away_ends_a_listing(self):
        for more in ([], ["--json"], ["--null"]):
            with subprocess.Popen([PROGRAM, "--master=endless", "ls", *more],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                process.stdout.read(10)
                process.stdout.close()
                self.assertNotEqual(process.wait(30), 0)


class Addresses(unittest.TestCase):
    """Where the master's address comes from: flag, environment, files; and it is said."""

    def told(self, folder, *args, **env):
        """The sentence about a pool out of reach, or what is wrong before."""
        plain = {name: value for name, value in os.environ.items()
                 if not name.startswith("MOONCAKE_")}
        status, _, err = run(*args, "status", env={**plain, "HOME": folder, "XDG_CONFIG_HOME": "",
                                                   **env})
        return status, err.split("\n")[0]

    def test_the_nearest_source_wins_and_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            users = os.path.join(folder, ".config", "mooncake", "ctl.json")
            os.makedirs(os.path.dirname(users))
            named = os.path.join(folder, "named.json")
            xdg = os.path.join(folder, "mooncake", "ctl.json")
            os.makedirs(os.path.dirname(xdg))
            for path in (users, named, xdg):
                with open(path, "w", encoding="ascii") as file:
                    file.write('{"master": "nobody:1"}')
            for args, env, source in (
                    (["--master=nobody:1"], {"MOONCAKE_MASTER": "long"}, "--master"),
                    (["--config-path=" + named], {"MOONCAKE_MASTER": "nobody:1"},
                     "environment MOONCAKE_MASTER"),
                    (["--config-path=" + named], {"MOONCAKE_CTL_CONFIG": "/none"}, "file " + named),
                    ([], {"MOONCAKE_CTL_CONFIG": named}, "file " + named),
                    ([], {"XDG_CONFIG_HOME": folder}, "file " + xdg),
                    ([], {}, "file " + users)):
                status, sentence = self.told(folder, *args, **env)
                self.assertEqual(status, 3, sentence)
                self.assertIn(f"(address from {source})", sentence)

    def test_files_that_say_nothing_right(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ctl.json")
            for text, words in (("{", "line 1"), ("[]", "is no JSON object"),
                                ('{"mastre": "a:1"}', 'unknown option "mastre"'),
                                ('{"master": 5}', '"master" must be a text'),
                                ('{"master": ""}', '"master" must be a text'),
                                ('{"master": "' + "x" * 301 + '"}', '"master" must be a text'),
                                ('{"master": "bad"}', f"(address from file {path})")):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                status, sentence = self.told(folder, "--config-path=" + path)
                self.assertEqual(status, 2, text)
                self.assertIn(words, sentence)
            status, sentence = self.told(folder, "--config-path=" + path + ".none")
            self.assertEqual((status, "no such file" in sentence), (2, True), sentence)
            self.assertIn("cannot be read", self.told(folder, "--config-path=" + folder)[1])


class Looks(unittest.TestCase):
    def lines(self, *args):
        status, out, err = run(*args)
        self.assertEqual((status, err), (0, ""))
        lines = out.decode().rstrip("\n").split("\n")
        self.assertLessEqual(max(map(len, lines)), 100, lines)
        return lines

    def test_status(self):
        text = "\n".join(self.lines("status"))
        self.assertIn("mooncake_master 9.8.7, up 1 d 2 h", text)
        for name, value in (("capacity", "1.0 PiB"), ("used", "512.0 TiB  50.0 %"),
                            ("keys", "1,234,567"), ("hits", "9,007,199,254,740,993  100.0 %")):
            self.assertRegex(text, rf"(?m)^{name} +{re.escape(value)}$")
        status = json.loads(run("status", "--json")[1])
        self.assertEqual(status["hits"], 9007199254740993)
        self.assertEqual(status["capacity"], 1 << 50)
        self.assertRegex(text, r"(?m)^core loop +81\.5 %  busy, last 12\.3 s; no io threads: see "
                               r"--io_threads$")
        self.assertEqual((status["core_busy_permille"], status["io_threads"]), (815, 0))
        self.assertEqual(status["hit_ratio"], 1.0)
        self.assertEqual(status["master_epoch"], "fedcba9876543210")

    def test_segments(self):
        lines = self.lines("segments")
        self.assertRegex(lines[0], r"^SEGMENT +HOST +STATE +SIZE +USED +SHARE +LARGEST FREE +EXT")
        self.assertIn("..", lines[1])
        self.assertRegex(lines[1], r":12345  host.example.org .* 1.0 TiB +512.0 GiB +50.0 % +1023 B")
        self.assertIn(r"odd\x1B[31", lines[2])
        self.assertIn(r"0A\xFFname", lines[2])
        self.assertEqual(len({len(line) for line in lines}), 1, "numbers are right aligned")
        segments = json.loads(run("segments", "--json")[1])["segments"]
        self.assertEqual(segments[0]["mount_id"], "f" * 16)
        self.assertEqual(segments[0]["len"], 1 << 40)
        self.assertTrue(segments[0]["name"].endswith("everybody:12345"))
        self.assertEqual(bytes.fromhex(segments[1]["name"]["hex"]), b"odd\x1b[31m\n\xffname")
        status, out, _ = run("--master=lost", "segments", "--json")
        self.assertEqual((status, list(json.loads(out))), (3, ["error"]))

    def test_clients_and_config(self):
        lines = self.lines("clients")
        self.assertRegex(lines[1], r"^0000000000000abc +client +host +vllm +340 ms +- +- +ok$")
        self.assertRegex(lines[2], r"^0000000000000001 +store +10.0.0.1:1 +- +1.0 TiB +50.0 % +gone$")
        self.assertEqual([s["client_id"][-1] for s in
                          json.loads(run("stores", "--json")[1])["stores"]], ["1"])
        self.assertEqual(json.loads(run("clients", "--json")[1])["clients"][0]["ping_age_ms"], 340)
        lines = self.lines("config")
        self.assertRegex(lines[0], r"^OPTION +VALUE +DEFAULT +SOURCE +UNIT$")
        self.assertRegex(lines[1], r"^lease_ms +20s +10s +flag +ms$")
        self.assertEqual(json.loads(run("config", "--json")[1])["configuration"],
                         [{"name": "lease_ms", "value": "20s", "default": "10s", "source": "flag",
                           "unit": "ms", "help": "how long a read protects"}])

    def test_why_full(self):
        text = "\n".join(self.lines("why-full"))
        self.assertRegex(text, r"(?m)^next lease +ends in 1\.5 s: eviction can then take 1\.0 GiB of "
                               r"segment a-very-long\.\.")
        self.assertRegex(text, r"(?m)^SEGMENT +FREE +LARGEST +EVICTABLE +LEASED +PINNED +BUSY")
        self.assertRegex(text, r":12345 +512\.0 GiB +1023 B +0 B +512\.0 GiB +0 B +0 B +1\.5 s")
        self.assertNotIn("EXCLUDED", text)
        text = "\n".join(self.lines("--master=long", "why-full"))
        self.assertIn("the 20 with the least room of 922; --limit=N shows more", text)
        self.assertRegex(text, r"(?m)^20 of 80; --limit=N shows more$")
        for words in ("its store leaves the pool, in 115 d", "drained by an operator; drain --can",
                      "clients could not reach it 115 d 17 h ago; last ping 115 d 17 h ago",
                      "its store was lost 115 d 17 h ago, it is being swept"):
            self.assertIn(words, text)
        full = json.loads(run("--master=long", "why-full", "--limit=3", "--json")[1])
        self.assertEqual((full["segments_total"], len(full["segments"]), full["excluded_total"],
                          len(full["excluded"])), (922, 3, 80, 3))
        self.assertEqual((full["next_lease_ms"], full["next_lease_bytes"]), (1500, 1 << 30))
        room = [(s["free"] + s["evictable"]) / s["len"] for s in full["segments"]]
        self.assertEqual(room, sorted(room))
        self.assertEqual({s["excluded"] for s in full["excluded"]} -
                         {"leaving", "drained", "unreachable", "lost"}, set())

    def test_each_table_fits(self):
        """Names without end, IPv6 addresses, numbers of ten digits: a line has 100 columns."""
        words = {"put": None, "get": None, "exist": None, "rm": ["--all"], "ls": [], "key": ["k"],
                 "status": [], "segments": [], "stores": [], "clients": [], "why-full": [],
                 "why-miss": ["fate=readable"], "check": None, "peers": [],
                 "top": ["--count=1", "--interval=1ms"], "diag": None, "drain": ["0" * 15 + "1"],
                 "verify": None, "config": [], "bench": None, "completion": None, "version": [],
                 "help": []}
        self.assertEqual(list(words), list(json.loads(run("help", "--json")[1])["commands"]))
        for command, more in words.items():
            if more is not None: # those print a value, or nothing of the pool's
                status, out, err = run("--master=long", command, *more)
                self.assertEqual((status, err), (1 if command == "peers" else 0, ""), command)
                for line in out.decode().split("\n"):
                    self.assertLessEqual(len(line), 100, (command, line))

    def test_rm_shows_its_progress_on_terminals_only(self):
        env = {**os.environ, "TERM": "xterm"}
        drawn = on_terminal(env, "--master=slow", "rm", "--pattern=k")
        self.assertRegex(drawn, rb"\r\x1b\[K300,000 removed, 1,234,567 keys in the pool\r")
        self.assertRegex(drawn, rb"\r\x1b\[Kremoved 1,234,567\r\n")
        status, out, _ = run("--master=slow", "rm", "--pattern=k")
        self.assertEqual((status, out.split(b"\n")[0]), (0, b"removed 1,234,567"))

    def test_why_miss(self):
        for key, status, words in (
                ("fate=evicted", 1, "evicted to make room, 12.0 s ago; it was 3 min 0 s old then, "
                                    "and unread for 1 min 1 s"),
                ("fate=removed", 1, "removed on request, 12.0 s ago"),
                ("fate=lost", 1, "lost with its store (segment host:7), 12.0 s ago"),
                ("fate=damaged", 1, "a reader found its last copy damaged"),
                ("fate=abandoned", 1, "its put failed or was given up"),
                ("fate=writing", 1, "by client 0000000000000abc"),
                ("fate=readable", 0, "no miss"),
                ("k", 1, "never written since the master started 1 h 0 min ago; nothing older"),
                ("forgotten", 1, "never written, or gone more than 1 min 0 s ago"),
                ("off", 1, "miss_history is 0")):
            got, out, err = run("why-miss", key)
            self.assertEqual((got, err), (status, ""))
            self.assertIn(words, out.decode())
        miss = json.loads(run("why-miss", "fate=lost", "--json")[1])
        self.assertEqual((miss["fate"], miss["store"], miss["ago_ms"], miss["history_entries"]),
                         ("lost", "host:7", 12000, 65536))
        self.assertEqual(run("why-miss", "ERPC")[0], 3)

    def test_drain(self):
        text = "\n".join(self.lines("drain", "host.example.org"))
        for words in ("nothing new is placed on 2 segments", "drained: nobody uses what is there",
                      r"  only\x0A", "... and 10 more (--limit)", "only here  30, 256.0 GiB"):
            self.assertIn(words, text)
        answer = json.loads(run("drain", "10.0.0.1:1", "--limit=3", "--json")[1])
        self.assertEqual((answer["sole_keys"], len(answer["only_here"]), answer["unused"]),
                         (30, 3, True))
        self.assertIn("placed there again", run("drain", "0" * 15 + "1", "--cancel")[1].decode())
        status, _, err = run("drain", "nobody")
        self.assertEqual(status, 1)
        self.assertIn('no store is called "nobody": mooncakectl stores lists them', err)

    def test_check_and_peers(self):
        status, out, _ = run("check")
        lines = out.decode().split("\n")
        self.assertEqual(status, 1, "the fake puts nothing where it was told to")
        self.assertLessEqual(max(map(len, lines[:3])), 100)
        self.assertRegex(lines[1], r" failed +[0-9.]+ ms +- +")
        self.assertIn("went to another segment", out.decode())
        peers = json.loads(run("peers", "--json")[1])["peers"]
        self.assertEqual(peers[0]["paths"], [{"device": "mlx5_0", "gid_kind": "rocev2",
                                              "gid": "10.0.0.1", "gid_index": 3, "mtu": 4096,
                                              "state": "up"}])
        self.assertEqual((peers[0]["transport"], peers[0]["retries"]), ("rdma", 3))
        for line in run("peers")[1].decode().split("\n"):
            self.assertLessEqual(len(line), 100)

    def test_top_draws_on_terminals_only(self):
        self.assertNotIn(b"\x1b", run("top", "--count=1", "--interval=1ms")[1])
        drawn = on_terminal({**os.environ, "TERM": "xterm"}, "top", "--count=1", "--interval=1ms")
        self.assertIn(b"\x1b[H\x1b[J", drawn)
        self.assertIn(b"HITS", drawn)

    def test_colours_are_for_terminals_only(self):
        self.assertNotIn(b"\x1b", run("segments")[1])
        env = {**os.environ, "TERM": "xterm"}
        self.assertIn(b"\x1b[32mok\x1b[0m", on_terminal(env, "segments"))
        self.assertNotIn(b"\x1b", on_terminal({**env, "NO_COLOR": "1"}, "segments"))
        self.assertNotIn(b"\x1b", on_terminal({**env, "TERM": "dumb"}, "segments"))

    def test_key(self):
        text = "\n".join(self.lines("key", "k"))
        for words in ("readable", "5.0 GiB (5,368,709,120 bytes)", "9.8 s",
                      "soft, for another 29 min 0 s", "1,099,511,627,776"):
            self.assertIn(words, text)
        key = json.loads(run("key", "k", "--json")[1])
        self.assertEqual(key["object_id"], "0" * 15 + "1" + "0" * 15 + "2")
        self.assertEqual(key["extents"][0]["offset"], 1 << 40)
        self.assertEqual(key["extents"][1]["replica"], 1)

    def test_ls(self):
        keys = [b"plain", b"two words", b"back\\slash", b"line\nfeed",
                b"not \xc3\x28 utf-8 \xc3\xa9"]
        self.assertEqual(run("ls")[1].decode().split("\n"),
                         ["plain", "two words", r"back\\slash", r"line\x0Afeed",
                          "not \\xC3( utf-8 \u00e9", ""])
        self.assertEqual(run("ls", "--null")[1].split(b"\0"), keys + [b""])
        self.assertEqual(run("ls", "--limit=1")[1], b"plain\n")
        listed = json.loads(run("ls", "--json")[1])
        self.assertEqual(listed["count"], 5)
        self.assertEqual([bytes.fromhex(k["hex"]) if isinstance(k, dict) else k.encode()
                          for k in listed["keys"]], keys)
        self.assertIsInstance(listed["keys"][4], dict)

    def test_a_listing_that_breaks_off_is_valid_json_and_says_so(self):
        status, out, err = run("--master=lost", "ls", "--json")
        listed = json.loads(out)
        self.assertEqual((status, listed["count"], listed["keys"]), (3, 2, ["plain", "two words"]))
        self.assertEqual(listed["error"]["name"], "ERPC")
        self.assertIn("the list of keys is not complete: connection to lost:1 was lost", err)


class Files(unittest.TestCase):
    VALUE = b"\0\n\xffvalue"

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def path(self, name, data=None):
        path = os.path.join(self.folder, name)
        if data is not None:
            with open(path, "wb") as file:
                file.write(data)
        return path

    def content(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_put_sends_every_byte(self):
        for size in (0, 1, 4095, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5000000):
            data = b"\x01" * size
            for path in ("-", self.path("in", data)):
                status, out, err = run("put", f"sum={size}", path, data=data)
                self.assertEqual(status, 0, err)
            status, out, _ = run("put", f"sum={size}", "-", "--json", data=data)
            self.assertEqual(json.loads(out), {"key": f"sum={size}", "len": size})
        self.assertEqual(run("put", "sum=3", "-", data=b"\x01\x01")[0], 4, "the fake looks")

    def test_put_of_what_cannot_be_read(self):
        for path, word in ((self.path("missing"), "No such file"), (self.folder, "Is a directory")):
            status, out, err = run("put", "k", path)
            self.assertEqual((status, out), (4, b""))
            self.assertIn(path, err)
            self.assertIn(word, err)

    def test_get_writes_a_whole_file(self):
        self.assertEqual(run("get", "k")[:2], (0, self.VALUE))
        self.assertEqual(run("get", "k", "-")[:2], (0, self.VALUE))
        self.assertEqual(run("get", "empty")[:2], (0, b""))
        new = self.path("new")
        self.assertEqual(run("get", "k", new), (0, b"", ""))
        self.assertEqual(self.content(new), self.VALUE)
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(stat.S_IMODE(os.stat(new).st_mode), 0o666 & ~mask)
        status, out, _ = run("get", "k", new, "--json")
        self.assertEqual((status, json.loads(out)), (0, {"key": "k", "len": 8, "file": new}))
        self.assertEqual(os.listdir(self.folder), ["new"])

    def test_get_replaces_a_file_but_not_a_link_or_its_mode(self):
        old = self.path("old", b"a longer text than the value")
        os.chmod(old, 0o640)
        link = self.path("link")
        os.symlink("old", link)
        self.assertEqual(run("get", "k", link)[0], 0)
        self.assertTrue(os.path.islink(link))
        self.assertEqual(self.content(old), self.VALUE)
        self.assertEqual(stat.S_IMODE(os.stat(old).st_mode), 0o640)

    def test_a_get_that_fails_leaves_the_file_as_it_was(self):
        old = self.path("old", b"before")
        self.assertEqual(run("get", "ENOENT", old)[0], 1)
        self.assertEqual(self.content(old), b"before")
        status, _, err = run("get", "k", os.path.join(self.folder, "no", "such"))
        self.assertEqual(status, 4)
        self.assertIn("No such file or directory", err)
        self.assertEqual(os.listdir(self.folder), ["old"])

    def test_a_write_that_fails_half_way_leaves_nothing_behind(self):
        old = self.path("old", b"before")
        limited = ["bash", "-c", 'trap "" XFSZ; ulimit -f 0; exec "$@"', "-", PROGRAM]
        result = subprocess.run(limited + ["get", "k", old], stderr=subprocess.PIPE, check=False)
        self.assertEqual(result.returncode, 4)
        self.assertIn(b"File too large", result.stderr)
        self.assertEqual(self.content(old), b"before")
        self.assertEqual(os.listdir(self.folder), ["old"])

    def test_a_device_is_written_to_not_replaced(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
            self.assertEqual(run("get", "k", pipe)[0], 0)
            self.assertEqual(reader.communicate(timeout=30)[0], self.VALUE)
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
        status, _, err = run("get", "k", "/dev/full")
        self.assertEqual(status, 4)
        self.assertIn("No space left", err)


if __name__ == "__main__":
    unittest.main()
