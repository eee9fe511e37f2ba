//! Scenarios with a virtual clock.

mod auto;
mod churn;
mod company;
mod engine;
mod events;
mod floods;
mod fuzz_scenario;
mod kit;
mod l4s;
mod laws;
mod memory;
mod outages;
mod outputs;
mod plain_paths;
mod quick_start;
mod stalls;
mod support;
mod varying;
mod vcp;
mod xcp;
mod xcp_i;
