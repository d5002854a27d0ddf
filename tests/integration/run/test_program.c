/* Programs in the foreground, by the command line: output, input, arguments and exit status are those of the program.
 */
#include <limits.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "support.h"

enum { OUTPUT_BYTES = 64 << 10 };

/* What the shell's command printed, with `sandbox` in place of S and `sandbox run` of RUN; then its exit status. */
static char *shell(struct world *world, const char *format, const char *path, int *ret_status) {
    char self[PATH_MAX], command[4 * PATH_MAX], words[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(words, sizeof words, format, path);
    assert_int_equal(string_format(command, sizeof command, NULL,
                                   "S='%s/../../bin/sandbox --home %s --no-autostart'; RUN=\"$S run\"; %s", self,
                                   world_home(world), words),
                     0);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    char *output = calloc(1, OUTPUT_BYTES + 1);
    assert_non_null(output);
    size_t size = fread(output, 1, OUTPUT_BYTES, pipe);
    output[size] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    *ret_status = WEXITSTATUS(status);
    return output;
}

static void expect(struct world *world, const char *format, const char *path, const char *output, int status) {
    int ended;
    CLEANUP_FREE char *said = shell(world, format, path, &ended);
    if (!strstr(said, output)) fail_msg("%s: '%s' does not say '%s'", format, said, output);
    assert_int_equal(ended, status);
}

/* Everything a script can do in one: each run costs a VM. */
static void a_script_is_its_own_program(void **state) {
    struct world *world = *state;
    const char *script = world_file(world, "all.exs",
                                    "IO.inspect(System.argv())\nIO.inspect(IO.gets(\"name? \"))\n"
                                    "IO.inspect(:io.read(\"\"))\nIO.inspect(IO.binread(:stdio, 3))\n"
                                    "IO.inspect(IO.read(:stdio, :line))\nIO.inspect(IO.gets(\"\"))\n"
                                    "for i <- 1..100, do: IO.puts(\"line #{i}\")\nIO.inspect(:over)\nSystem.halt(7)\n");
    expect(world, "{ printf 'Ann\\n{a,\\n 1}.\\nxyzäö\\nlast' | $RUN %s one -- --two; echo status $?; } | sed /^line/d",
           script,
           "[\"one\", \"--two\"]\nname? \"Ann\\n\"\n{:ok, {:a, 1}}\n\"xyz\"\n\"äö\\n\"\n\"last\"\n:over\nstatus 7\n",
           0);
}

/* The words and status of Elixir's own command. */
static void a_script_that_raises_exits_with_1(void **state) {
    struct world *world = *state;
    const char *script = world_file(world, "bad.exs", "IO.puts(\"before\")\nraise \"bad thing\"\n");
    expect(world, "$RUN %s 2>&1 </dev/null", script, "before\n** (RuntimeError) bad thing\n    bad.exs:2: (file)\n", 1);
}

static void the_input_may_be_the_script(void **state) {
    struct world *world = *state;
    expect(world, "echo 'IO.inspect(IO.gets(\"\")); System.at_exit(fn _ -> IO.puts(\"bye\") end)' | $RUN -%s", "",
           ":eof\nbye\n", 0);
}

static void an_erlang_file_runs_its_main(void **state) {
    struct world *world = *state;
    const char *file = world_file(world, "hi.erl",
                                  "-module(hi).\n-export([main/1]).\n"
                                  "main(Args) -> io:format(\"hi ~p~n\", [Args]), error(failed).\n");
    expect(world, "$RUN %s x y 2>&1 </dev/null", file, "hi [\"x\",\"y\"]\nexception error: failed", 1);
}

/* The archive's application, and the arguments, input and status of the program. */
static void an_escript_is_its_own_program(void **state) {
    struct world *world = *state;
    expect(world, "echo Ann | $RUN %s one -- --two 2>&1", ESCRIPT, "name? [\"one\",\"--two\"] {ok,3} \"Ann\\n\"\n", 9);
}

static void an_escript_of_text_is_too(void **state) {
    struct world *world = *state;
    const char *script = world_file(world, "greet",
                                    "#!/usr/bin/env escript\n%%! -sname x\n"
                                    "main([Name]) -> io:format(\"hi ~s~n\", [Name]), error(failed).\n");
    expect(world, "$RUN %s Ann 2>&1 </dev/null", script,
           "hi Ann\nexception error: failed\n  in function  greet:main/1 (/src/project/greet", 1); /* then the line */
}

/* Gone with its caller, whatever it does. */
static void an_interrupted_one_exits_with_130(void **state) {
    struct world *world = *state;
    /* The shell's own child, which tells that it has begun through the pipe. */
    expect(world,
           "exec 3>&1; { $RUN %s wait </dev/null & echo $!; wait $!; echo status $? >&3; } | "
           "{ read pid; read line; echo $line >&3; kill -INT $pid; cat >/dev/null; }",
           ESCRIPT, "begun\nstatus 130\n", 0);
}

static void what_is_no_program_is_refused(void **state) {
    struct world *world = *state;
    const char *script = world_file(world, "script", "#!/bin/sh\necho hi\n");
    expect(world, "$RUN %s 2>&1 </dev/null", script, "is a script of another interpreter: #!/bin/sh", 2);
    expect(world, "$RUN %s words 2>&1 </dev/null", EXAMPLES "/counter", "takes arguments", 2);
    expect(world, "$RUN --eval 1 %s 2>&1 </dev/null", world_file(world, "evaluated.exs", "IO.puts 1\n"),
           "takes no eval", 2);
    expect(world, "$RUN 2>&1 </dev/null %s", "", "SOURCE is missing", 2);
    json_decref(world_fails(world, "run", "invalid_input", "{s:s, s:[s]}", "source",
                            world_file(world, "one.ex", "defmodule One do\nend\n"), "args", "words"));
    json_decref(world_fails(world, "run", "invalid_input", "{s:s}", "code", "1"));
    json_decref(world_fails(world, "run", "invalid_input", "{s:s, s:s}", "code", "1", "file", "../a.exs"));
    json_decref(world_fails(world, "input", "not_found", "{s:s}", "id", "none"));
}

static const char *mix_project(struct world *world) {
    world_file(world, "till/lib/mix/tasks/till.ask.ex",
               "defmodule Mix.Tasks.Till.Ask do\n  use Mix.Task\n  def run(args) do\n    IO.inspect(args)\n"
               "    File.write!(\"made.txt\", IO.gets(\"\"))\n    Mix.raise(\"closed\")\n  end\nend\n");
    const char *described = world_file(world, "till/mix.exs",
                                       "defmodule Till.MixProject do\n  use Mix.Project\n"
                                       "  def project, do: [app: :till, version: \"1.0.0\"]\nend\n");
    *strrchr((char *)described, '/') = '\0';
    return described;
}

/* Words, input and status are those of Mix. What the task wrote is told, and is not there. */
static void a_task_of_mix_runs_on_the_build(void **state) {
    struct world *world = *state;
    const char *project = mix_project(world);
    expect(world, "cd %s; { echo hi | $S mix -e A=1 . till.ask -e A=2 --; echo status $?; } 2>&1; ls made.txt 2>&1",
           project,
           "[\"-e\", \"A=2\", \"--\"]\n** (Mix) closed\n"
           "sandbox: the task wrote to a copy of the project, and nothing of it is kept: made.txt\nstatus 1\nls: ",
           2);
    expect(world, "$S mix %s 2>&1", project, "TASK is missing", 2);
    expect(world, "$S mix %s any 2>&1", EXAMPLES "/counter_erl", "is a rebar3 project", 2);
}

static int open_world(void **state) {
    *state = world_open("warm-nodes = 0\n");
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

int main(void) {
    const struct test_case cases[] = {
        CASE(a_script_is_its_own_program),          LONG_CASE(a_script_that_raises_exits_with_1),
        LONG_CASE(the_input_may_be_the_script),     LONG_CASE(an_erlang_file_runs_its_main),
        CASE(an_interrupted_one_exits_with_130),    CASE(what_is_no_program_is_refused),
        LONG_CASE(a_task_of_mix_runs_on_the_build), CASE(an_escript_is_its_own_program),
        LONG_CASE(an_escript_of_text_is_too),
    };
    return cases_run(cases, ARRAY_SIZE(cases), open_world, close_world);
}
