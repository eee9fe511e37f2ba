//! HMAC-SHA-256 (RFC 2104) from the library that the features select: aws-lc in programs that
//! contain it anyway, such as those with the transport, and RustCrypto in others, such as the
//! router.

#[cfg(not(any(feature = "aws-lc-rs", feature = "rust-crypto")))]
compile_error!("xcp-edge needs feature `aws-lc-rs` or `rust-crypto`");

/// Length of an HMAC-SHA-256 in bytes.
pub(crate) const LEN: usize = 32;

#[cfg(feature = "aws-lc-rs")]
pub(crate) use aws::Mac;
#[cfg(all(feature = "rust-crypto", not(feature = "aws-lc-rs")))]
pub(crate) use rust::Mac;

#[cfg(feature = "aws-lc-rs")]
mod aws {
    use aws_lc_rs::constant_time::verify_slices_are_equal;
    use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};

    use super::LEN;

    /// Computes the authenticator of bytes that are passed in parts.
    #[derive(Clone)]
    pub(crate) struct Mac(Context);

    impl Mac {
        /// Starts without any bytes. `None`: the secret cannot be a key.
        pub(crate) fn new(secret: &[u8]) -> Option<Self> {
            Some(Self(Context::with_key(&Key::new(HMAC_SHA256, secret))))
        }

        pub(crate) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        pub(crate) fn finish(self) -> [u8; LEN] {
            let mut all = [0; LEN];
            for (to, from) in all.iter_mut().zip(self.0.sign().as_ref()) {
                *to = *from;
            }
            all
        }

        /// Whether it starts with `tag`. Takes the same time for every wrong one.
        pub(crate) fn begins_with(self, tag: &[u8]) -> bool {
            let all = self.finish();
            let own = all.get(..tag.len());
            own.is_some_and(|own| verify_slices_are_equal(own, tag).is_ok())
        }
    }
}

#[cfg(all(feature = "rust-crypto", not(feature = "aws-lc-rs")))]
mod rust {
    use hmac::{Hmac, KeyInit, Mac as _};
    use sha2::Sha256;

    use super::LEN;

    /// Computes the authenticator of bytes that are passed in parts.
    #[derive(Clone)]
    pub(crate) struct Mac(Hmac<Sha256>);

    impl Mac {
        /// Starts without any bytes. `None`: the secret cannot be a key.
        pub(crate) fn new(secret: &[u8]) -> Option<Self> {
            Hmac::new_from_slice(secret).map(Self).ok()
        }

        pub(crate) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        pub(crate) fn finish(self) -> [u8; LEN] {
            self.0.finalize().into_bytes().into()
        }

        /// Whether it starts with `tag`. Takes the same time for every wrong one.
        pub(crate) fn begins_with(self, tag: &[u8]) -> bool {
            self.0.verify_truncated_left(tag).is_ok()
        }
    }
}
