//! Hard links, as the kernel makes them or as a file system refuses them.

use std::{fs, io, path::Path};

/// Whether the file system makes hard links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// As the kernel says.
    Kernel,
    /// Every link is refused, as on many shared file systems.
    Refused,
}

impl Links {
    /// The lowest call.
    pub(super) fn link(self, from: &Path, to: &Path) -> io::Result<()> {
        match self {
            Self::Kernel => fs::hard_link(from, to),
            Self::Refused => Err(rustix::io::Errno::OPNOTSUPP.into()),
        }
    }
}
