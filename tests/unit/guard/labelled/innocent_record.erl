-module(innocent_record).
-export([run/1]).
-record(os, {cmd, file}).

run(#os{cmd = Command, file = File}) -> {Command, File}.
