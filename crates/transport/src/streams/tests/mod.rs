//! Two ends over a channel, and what a peer must not do.

mod channel;
mod exchange;
mod lossy;
mod queues;
mod violations;
mod waiting;
