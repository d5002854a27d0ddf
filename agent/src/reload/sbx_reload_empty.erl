%% Nothing: see sbx_reload_stub.
-module(sbx_reload_empty).
