//! System calls that need `unsafe`, each with its justification.

mod alarm;
#[cfg(target_os = "linux")]
mod messages;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod send;

#[cfg(all(test, target_os = "linux"))]
pub(super) use alarm::RuntimeAlarm;
pub(super) use alarm::{Alarm, SystemAlarm};
#[cfg(target_os = "linux")]
pub(super) use messages::{CONTROL, Message, Messages};
#[cfg(target_os = "linux")]
pub(super) use messages::{QueuedError, queue_errors, take_error};
#[cfg(target_os = "linux")]
pub(super) use options::{interface_mtu, prepare};
#[cfg(target_os = "linux")]
pub(super) use send::{Outgoing as OutgoingMessage, send};
