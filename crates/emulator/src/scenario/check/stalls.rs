//! Checks of stalls.

use pathmark_link::keys::Fault;

use super::super::Stall;
use super::super::schema::FileStall;
use super::Check;

impl Check<'_> {
    /// The stalls, ordered by time.
    pub(super) fn stalls(&self, files: &[FileStall]) -> Result<Vec<Stall>, Fault> {
        let mut stalls: Vec<Stall> = Vec::with_capacity(files.len());
        for file in files {
            let (at, lasts) = (file.at.get_ref().0, file.lasts.get_ref().0);
            if lasts.is_zero() {
                return Err(self.fault(file.lasts.span(), "`lasts` must be longer than 0"));
            }
            if at >= self.duration {
                let message = "the stall begins after the run: raise `duration`";
                return Err(self.fault(file.at.span(), message));
            }
            let stall = Stall {
                node: self.known_node(&file.node)?,
                from: at,
                until: at.saturating_add(lasts),
            };
            let overlaps = |other: &&Stall| {
                other.node == stall.node && other.from < stall.until && stall.from < other.until
            };
            if let Some(other) = stalls.iter().find(overlaps) {
                let name = file.node.get_ref();
                let (from, until) = (other.from, other.until);
                let message =
                    format!("`{name}` stalls from {from:?} to {until:?} already: stalls overlap");
                return Err(self.fault(file.at.span(), message));
            }
            stalls.push(stall);
        }
        stalls.sort_by_key(|stall| stall.from);
        Ok(stalls)
    }
}
