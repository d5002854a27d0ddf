%%% Tests that a node of any supported OTP can load the agent, whatever OTP has compiled it.
-module(portable_test).

-include_lib("eunit/include/eunit.hrl").

%% Instructions of older compilers that newer VMs refuse to load. OTP 29 has no bs_test_unit: it
%% comes from a pattern such as <<"x", _/binary>>, for which binary:part/3 and the like stand in.
-define(REFUSED, [bs_test_unit]).

only_instructions_that_every_otp_loads_test() ->
    Beams = filelib:wildcard(filename:join(filename:dirname(code:which(sbx_boot)), "sbx_*.beam")),
    ?assert(length(Beams) > 50),
    ?assertEqual([], [Found || Beam <- Beams, Found <- refused(Beam)]).

refused(Beam) ->
    {beam_file, Module, _Exports, _Attributes, _Compile, Functions} = beam_disasm:file(Beam),
    [
        {Module, Name, Arity}
     || {function, Name, Arity, _Entry, Code} <- Functions, lists:any(fun is_refused/1, Code)
    ].

is_refused({test, Name, _Label, _Operands}) -> lists:member(Name, ?REFUSED);
is_refused(_Instruction) -> false.
