//! One target under libFuzzer: the one that `SQLUICE_FUZZ_TARGET` names. Started by `./dev fuzz`.

#![no_main]

use std::sync::OnceLock;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fn named() -> fn(&[u8]) {
    let name = std::env::var("SQLUICE_FUZZ_TARGET").unwrap_or_default();
    match sqluice_fuzz::target(&name) {
        Some(target) => target.run,
        None => {
            eprintln!("SQLUICE_FUZZ_TARGET={name:?} names no target");
            std::process::exit(2);
        }
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET.get_or_init(named)(data));
