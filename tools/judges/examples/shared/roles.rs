//! Cases of the interop runner with this library and another stack, in both roles.

use std::process::ExitCode;

use crate::cases::Stacks;
use crate::support::peers::Stack;
use crate::table;

/// The role of the other stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// A case that the other stack doesn't support: its name, the roles, and the reason.
pub(crate) type NotRun = (&'static str, &'static [Role], &'static str);

/// Client and server, with this library in either role.
pub(crate) const STACKS: [Stacks; 2] = [(Stack::Ours, Stack::Theirs), (Stack::Theirs, Stack::Ours)];

/// Returns true unless the other stack doesn't support its role in `case`.
pub(crate) fn can(not_run: &[NotRun], case: &str, (client, _): Stacks) -> bool {
    let role = match client {
        Stack::Ours => Role::Server,
        Stack::Theirs => Role::Client,
    };
    let cannot = |(name, roles, _): &NotRun| *name == case && roles.contains(&role);
    !not_run.iter().any(cannot)
}

/// Prints the table of this library and the other stack, which is called `name`.
pub(crate) async fn judge(name: &str, not_run: &[NotRun]) -> ExitCode {
    let titles = [
        &*format!("our client, {name}'s server"),
        &*format!("{name}'s client, our server"),
    ];
    let why: Vec<_> = not_run.iter().map(|(name, _, why)| (*name, *why)).collect();
    let can = |case: &str, stacks| can(not_run, case, stacks);
    table::print(titles, STACKS, can, &why).await
}
