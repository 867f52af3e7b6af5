//! The built program, run as a user runs it.

// A test that cannot go on stops where it is; clippy does not see that these functions are tests'.
#![allow(clippy::unwrap_used)]

mod activation;
mod administrator;
mod advise;
mod balance;
mod board;
mod calibrate;
mod changeover;
mod check;
mod cloud;
mod damage;
mod engine;
mod fs;
mod hanging;
mod hint_sources;
mod hints;
mod hosting;
mod interop;
mod lab_balance;
mod lab_cache;
mod lab_tunnel;
mod lab_volume;
mod listeners;
mod metrics;
mod mounted;
mod mounts;
mod names;
mod nbd_clients;
mod outputs;
mod policies;
mod pools;
mod power_loss;
mod prefetch;
mod preload;
mod program;
mod record;
mod record_real;
mod redis;
mod removed_pools;
mod scrub;
mod shadows;
mod shell;
mod sweep;
mod sweep_buckets;
mod trace_chunks;
mod trace_convert;
mod trace_stat;
mod trace_synth;
mod tunnel;
mod tunnel_clients;
mod tunnel_page;
mod tunnel_transparent;
mod up;
