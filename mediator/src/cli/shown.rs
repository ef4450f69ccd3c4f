//! What this program shows of itself, for messages about it.

use std::path::PathBuf;

/// What this program says it is, for messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    /// The certificate.
    pub(crate) cert: Option<PathBuf>,
    /// Where the token comes from.
    pub(crate) token: Option<String>,
    /// Where on this host a token was looked for in vain, and what was found there.
    pub(crate) looked: Vec<String>,
}

impl Shown {
    /// Neither a token nor a certificate.
    pub(super) const fn is_nothing(&self) -> bool {
        self.cert.is_none() && self.token.is_none()
    }

    /// What to look at when a server wants nothing of the certificate, or would have one.
    pub(super) fn about_certificate(&self) -> String {
        match &self.cert {
            Some(cert) => format!(
                "--client-cert {cert} must be signed by the authority in the server's tls.client_ca and be valid today: \
                 `openssl x509 -noout -issuer -dates -in {cert}` shows it, and the server's log why, with log.filter = \
                 \"mediator=debug\". `mediator pki issue` makes another.",
                cert = cert.display(),
            ),
            None => {
                "A server with tls.client_auth = \"required\" wants a certificate: give one with --client-cert and \
                     --client-key; `mediator pki issue` makes one."
                    .to_owned()
            }
        }
    }

    /// What to do about not being known.
    pub(super) fn about_caller(&self) -> String {
        let other = "with --token-file FILE or MEDIATOR_TOKEN; an administrator makes one on the mediator's host.";
        match (&self.cert, &self.token) {
            (_, Some(from)) => format!("The token that was shown is that of {from}. Give another {other}"),
            (Some(cert), None) => format!(
                "What was shown is --client-cert {}. Show another one (`mediator pki issue` makes it), or give a token {other}",
                cert.display()
            ),
            (None, None) if self.looked.is_empty() => format!("Give a token {other}"),
            (None, None) => format!(
                "This host's own was looked for: {}.\nIf `mediator serve` has another state directory, name it in \
                 MEDIATOR_STATE_DIR; else give a token {other}",
                self.looked.join("; ")
            ),
        }
    }
}
