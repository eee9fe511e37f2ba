//! State of paths that tests read and change.

use pathmark_cc::Feedback;

use super::Paths;
use crate::path::{AmplificationLimit, Mtud, PathValidation, PlainPath};

impl Paths {
    /// Returns the amplification limit of the current address.
    pub(in crate::connection) fn limit(&mut self) -> &mut AmplificationLimit {
        &mut self.path.address.limit
    }

    /// Returns the attempt to validate the current address.
    pub(in crate::connection) fn validation(&mut self) -> &mut Option<PathValidation> {
        &mut self.path.address.validation
    }

    pub(in crate::connection) fn mtud(&mut self) -> &mut Mtud {
        &mut self.path.route.mtud
    }

    pub(in crate::connection) fn plain(&self) -> &PlainPath {
        &self.path.route.plain
    }

    pub(in crate::connection) fn has_fallback(&self) -> bool {
        self.fallback.is_some()
    }

    /// Returns the sequence number of the peer's ID for the path that was left, if it has a
    /// separate one.
    pub(in crate::connection) fn fallback_id(&self) -> Option<u64> {
        let id = self.fallback.as_ref()?.id.as_ref()?;
        Some(id.sequence)
    }

    /// Returns the sequence number of the peer's ID for the path that the peer probes.
    pub(in crate::connection) fn off_path_id(&self) -> Option<u64> {
        self.off_path.as_ref().map(|off| off.id.sequence)
    }

    pub(in crate::connection) fn move_tokens(&mut self) {
        self.tokens_moved = true;
    }

    pub(in crate::connection) fn set_last_feedback(&mut self, feedback: Feedback) {
        self.path.last_feedback = Some(feedback);
    }
}
