//! Figures of real processes, printed with their conditions. Each needs an idle machine:
//!
//! ```sh
//! cargo bench -p pathmark-cli --bench figures               # their names
//! cargo bench -p pathmark-cli --bench figures -- tunnel::   # those whose names have this in them
//! ```
//!
//! `PATHMARK_SECONDS` replaces the 60 s of each run of `application_rates`, and `PATHMARK_WAYS`
//! lists the ways to run: `vcp`, `xcp`, `auto`, `fallback`, `cubic`, `bbr`. These runs require
//! root.

#![expect(clippy::disallowed_methods, reason = "these runs are in real time")]

mod application_rates;
#[path = "../../tests/it/applications/mod.rs"]
#[expect(dead_code, reason = "tests use more of it")]
mod applications;
#[path = "../../tests/it/common/mod.rs"]
#[expect(dead_code, reason = "tests use more of it")]
mod common;
mod kernel_tcp;
mod queues;
mod rates;
mod tunnel;

macro_rules! runs {
    ($($module:ident::$run:ident,)*) => {
        &[$((concat!(stringify!($module), "::", stringify!($run)), $module::$run)),*]
    };
}

const RUNS: &[(&str, fn())] = runs![
    application_rates::curl,
    application_rates::wget,
    application_rates::rsync,
    application_rates::one_scp,
    application_rates::four_scp,
    application_rates::ftp,
    application_rates::smb,
    kernel_tcp::cubic_and_bbr_compared_with_the_kernels,
    queues::delays_inside_a_tcp_flow,
    queues::a_constant_rate_over_a_lossy_path,
    rates::ten_thousand_small_files_over_10_mbit_and_400_ms,
    rates::a_gigabyte_over_200_mbit_250_ms_and_two_routers,
    rates::tcp_in_comparison_over_200_mbit_and_250_ms,
    rates::two_gigabytes_on_loopback,
    tunnel::flows_at_once,
    tunnel::new_flows,
    tunnel::loopback,
    tunnel::short_flows_over_a_long_path,
    tunnel::one_flow_over_a_lossy_path,
];

fn main() {
    // Cargo adds an option.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    for (name, run) in RUNS {
        if wanted.is_empty() {
            println!("{name}");
        } else if wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            println!("== {name}");
            run();
        }
    }
}
