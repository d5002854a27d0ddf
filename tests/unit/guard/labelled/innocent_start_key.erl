-module(innocent_start_key).
-export([run/0]).

run() -> #{start => {2024, 1, 1}, stop => {2025, 1, 1}, file => {os, cmd}}.
