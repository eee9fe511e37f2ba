//! `pathmark top`: repeatedly shows the state of a running tunnel or proxy, the fastest flows
//! first.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::control::state_of;
use super::session::Stop;
use super::{Outcome, output, proxy, tunnel, values};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The status socket of a tunnel or proxy, which its configuration names as `control`
    socket: PathBuf,
    /// Time from one look to the next
    #[arg(long, value_name = "DUR", value_parser = values::duration, default_value = "1s")]
    interval: Duration,
    /// End after this number of looks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

pub(super) async fn top(args: Args, stop: Stop) -> Outcome {
    let mut looks = 0;
    loop {
        let mut state = state_of(&args.socket)?;
        sort(&mut state);
        let table = if state["connections"].is_array() {
            proxy::table(&state)
        } else {
            tunnel::table(&state)
        };
        output::screen(&table)?;
        looks += 1;
        if args.count.is_some_and(|count| looks >= count) {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(args.interval) => {}
            // Interrupting is the normal way to end.
            () = stop.stopped() => return Ok(()),
        }
    }
}

/// Sorts the fastest flows first.
fn sort(state: &mut Value) {
    let rate = |flow: &Value| {
        let of = |key: &str| flow[key].as_f64().unwrap_or_default();
        of("rate_up_bps") + of("rate_down_bps")
    };
    if let Some(flows) = state["flows"].as_array_mut() {
        flows.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_fastest_flows_come_first() {
        let flow = |id: u32, up: f64, down: f64| {
            let mut flow = json!({"rate_up_bps": up, "rate_down_bps": down});
            flow["id"] = id.into();
            flow
        };
        let flows = [flow(0, 1.0, 1.0), flow(1, 5.0, 0.0), flow(2, 0.0, 3.0)];
        let mut state = json!({ "flows": flows });
        sort(&mut state);
        let ids = [0, 1, 2].map(|at| state["flows"][at]["id"].as_u64().unwrap());
        assert_eq!(ids, [1, 2, 0]);
    }
}
