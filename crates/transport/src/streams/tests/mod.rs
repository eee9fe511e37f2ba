//! Two ends over a channel, and violations by a peer.

mod channel;
mod exchange;
mod lossy;
mod queues;
mod violations;
mod waiting;
