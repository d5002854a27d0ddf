%% Nothing: see sbx_reload_gone.
-module(sbx_reload_empty).
