//! How messages become bytes: as prost does it, with little memory for a stream that says nothing.
//!
//! A mediator has an open stream for every node, and tonic keeps 8 KiB for each. Here a stream begins with 512
//! bytes, which is more than most messages have, and grows with what it carries.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// The codec of every service of this crate.
#[derive(Debug, Clone)]
pub struct LeanCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for LeanCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// Bytes to begin with, and how many are gathered before they are sent.
fn buffers() -> BufferSettings {
    BufferSettings::new(512, 32 * 1024)
}

impl<T, U> Codec for LeanCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(buffers())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(buffers())
    }
}
