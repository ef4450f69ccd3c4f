//! The connection to a mediator: address, trust, token, and calls that cannot hang.

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use proto::v1::{ListRunsRequest, fleet_service_client::FleetServiceClient, run_service_client::RunServiceClient};
use shared::RunId;
use tonic::{
    Code, Request, Response, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri},
};

use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus};

use super::{
    args::Global,
    exit::{Failure, Outcome},
    refusal,
    shown::Shown,
};
use crate::{
    config::{self, Layers},
    file,
};

/// A call that answers once must answer within this.
const CALL: Duration = Duration::from_secs(30);
/// Of several mediators one must say within this that it serves, or the next one is asked.
const REACH: Duration = Duration::from_secs(2);
/// Fewest letters by which a Run may be named.
const FEWEST: usize = 6;
/// Largest message accepted: a page of a thousand wide Runs.
const LARGEST: usize = 64 << 20;

/// A mediator, not necessarily one that runs, or one of several that serve the same fleet. Cheap to clone; reconnects
/// by itself, and goes to the next one after a failure.
#[derive(Clone)]
pub(crate) struct Client {
    mediators: Arc<[(String, Channel)]>,
    used: Arc<AtomicUsize>,
    bearer: Bearer,
    shown: Shown,
}

/// The channel with the token on every call.
pub(crate) type Wire = InterceptedService<Channel, Bearer>;

/// Puts the token on a call.
#[derive(Clone)]
pub(crate) struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

impl Client {
    /// Prepares the connection. Of several mediators the first one that can be reached is taken; otherwise nothing
    /// is sent yet.
    pub(crate) async fn new(global: &Global) -> Outcome<Self> {
        let client = Self::prepare(global)?;
        if client.mediators.len() > 1 {
            for at in 0..client.mediators.len() {
                client.used.store(at, Ordering::Relaxed);
                let mut health = client.health();
                let asked = health.check(HealthCheckRequest::default());
                if tokio::time::timeout(REACH, asked).await.is_ok_and(|answer| answer.is_ok_and(serves)) {
                    break;
                }
            }
        }
        Ok(client)
    }

    fn prepare(global: &Global) -> Outcome<Self> {
        let urls: Vec<&str> = global.mediator.split(',').map(str::trim).filter(|url| !url.is_empty()).collect();
        let mut hosts = urls.iter().filter_map(|url| url.parse::<Uri>().ok()?.host().map(is_loopback));
        let (found, looked) = match token(global, !urls.is_empty() && hosts.all(|here| here))? {
            Token::Found(value, from) => (Some((value, from)), Vec::new()),
            Token::None { looked } => (None, looked),
        };
        let mediators: Vec<_> = urls.iter().map(|url| Self::mediator(global, url)).collect::<Outcome<_>>()?;
        if mediators.is_empty() {
            return Err(Failure::refused("--mediator: there is no address in it")
                .advise("Write it as http://HOST:PORT or https://HOST:PORT, several with commas between."));
        }
        let (bearer, from) = found.unzip();
        let shown = Shown { cert: global.client_cert.clone(), token: from, looked };
        Ok(Self { mediators: mediators.into(), used: Arc::default(), bearer: Bearer(bearer), shown })
    }

    fn mediator(global: &Global, url: &str) -> Outcome<(String, Channel)> {
        let url = url.trim_end_matches('/').to_owned();
        let bad = |why: &str| {
            Failure::refused(format!("--mediator {}: {why}", super::output::clean(&url)))
                .advise("Write it as http://HOST:PORT or https://HOST:PORT.")
        };
        let uri: Uri = url.parse().map_err(|_| bad("this is not a URL"))?;
        let host = uri.host().ok_or_else(|| bad("this URL names no host"))?;
        let authority = uri.authority().map_or("", |it| it.as_str());
        if authority.contains('@') {
            return Err(bad("a user in it means nothing here; a token is given with --token-file"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(bad("there must be nothing behind the port"));
        }
        // What is no port would be passed over, and the scheme's own taken.
        if let Some(port) = authority.strip_prefix(host).and_then(|it| it.strip_prefix(':'))
            && uri.port_u16().is_none_or(|it| it == 0)
        {
            return Err(bad(&format!("port {port:?} is not a number from 1 to 65535")));
        }
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad("only http:// and https:// are known")),
        };
        let mut endpoint = Endpoint::from(uri)
            .connect_timeout(Duration::from_secs(5))
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(10))
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        match (&global.ca, tls) {
            (Some(path), true) => {
                let pem = file::read_given(path, file::SMALL)
                    .map_err(|e| Failure::io(format_args!("--ca {}", path.display()), &e))?;
                if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
                    return Err(Failure::refused(format!("--ca {}: no certificate in this file", path.display()))
                        .advise("Give the ca.crt that `mediator pki init` wrote."));
                }
                let mut trust = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
                let mut of = format!("--ca {}", path.display());
                if let (Some(cert), Some(key)) = (&global.client_cert, &global.client_key) {
                    let read = |flag: &str, path: &PathBuf| {
                        file::read_given(path, file::SMALL)
                            .map_err(|e| Failure::io(format_args!("{flag} {}", path.display()), &e))
                    };
                    trust =
                        trust.identity(Identity::from_pem(read("--client-cert", cert)?, read("--client-key", key)?));
                    of = format!("{of}, --client-cert {}, --client-key {}", cert.display(), key.display());
                }
                endpoint =
                    endpoint.tls_config(trust).map_err(|e| Failure::refused(format!("{of}: {}", innermost(&e))))?;
            }
            (None, true) => {
                return Err(Failure::refused(format!("cannot trust {url}: no certificate authority is given"))
                    .advise("Give the CA's certificate with --ca FILE; `mediator pki init` wrote it."));
            }
            (Some(ca), false) => {
                let ca = ca.display();
                return Err(Failure::refused(format!(
                    "--mediator {}: --ca {ca} is given, but the URL is http://, which has no certificates",
                    super::output::clean(&url)
                ))
                .advise("Write the URL with https://, or take --ca (MEDIATOR_CA) away."));
            }
            (None, false) if global.client_cert.is_some() => {
                return Err(bad("--client-cert is given, but the URL is http://, which shows no certificates"));
            }
            (None, false) => {}
        }
        Ok((url, endpoint.connect_lazy()))
    }

    fn used(&self) -> &(String, Channel) {
        // Never empty.
        &self.mediators[self.used.load(Ordering::Relaxed) % self.mediators.len()]
    }

    fn channel(&self) -> Channel {
        self.used().1.clone()
    }

    /// The address, for messages.
    pub(crate) fn url(&self) -> &str {
        &self.used().0
    }

    /// `RunService`.
    pub(crate) fn runs(&self) -> RunServiceClient<Wire> {
        RunServiceClient::with_interceptor(self.channel(), self.bearer.clone())
            .max_decoding_message_size(LARGEST)
            .max_encoding_message_size(LARGEST)
    }

    /// `FleetService`.
    pub(crate) fn fleet(&self) -> FleetServiceClient<Wire> {
        FleetServiceClient::with_interceptor(self.channel(), self.bearer.clone()).max_decoding_message_size(LARGEST)
    }

    /// The standard health service.
    pub(crate) fn health(&self) -> tonic_health::pb::health_client::HealthClient<Wire> {
        tonic_health::pb::health_client::HealthClient::with_interceptor(self.channel(), self.bearer.clone())
    }

    /// Awaits one answer. `what` is the sentence "cannot …" should there be none.
    pub(crate) async fn call<T>(
        &self,
        what: &str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Outcome<T> {
        let asked = self.used().0.clone();
        self.attempt(answer).await.map_err(|status| refusal::failure(&asked, what, &status, &self.shown))
    }

    /// The same for one Run: of its id, or else of the only Run whose id begins so. `what` is "cannot … Run". Returns
    /// the whole id, too.
    pub(crate) async fn call_of<T, A: Future<Output = Result<Response<T>, Status>>>(
        &self,
        what: &str,
        run: &RunId,
        ask: impl Fn(RunServiceClient<Wire>, String) -> A,
    ) -> Outcome<(RunId, T)> {
        let asked = self.used().0.clone();
        let status = match self.attempt(ask(self.runs(), run.to_string())).await {
            Ok(answer) => return Ok((run.clone(), answer)),
            Err(status) => status,
        };
        let meant = if status.code() == Code::NotFound { self.meant(run).await? } else { None };
        let Some(meant) = meant else {
            let failure = refusal::failure(&asked, &format!("{what} {run}"), &status, &self.shown);
            let is_short = status.code() == Code::NotFound && run.as_str().len() < FEWEST;
            return Err(match is_short {
                true => failure
                    .advise(format!("write the whole id of the Run, or at least {FEWEST} letters of its beginning")),
                false => failure,
            });
        };
        let answer = self.call(&format!("{what} {meant}"), ask(self.runs(), meant.to_string())).await?;
        Ok((meant, answer))
    }

    /// The only Run whose id begins with this and is not this. None as well where nobody may or can say so: then what
    /// is asked next says what is wrong.
    pub(crate) async fn meant(&self, beginning: &RunId) -> Outcome<Option<RunId>> {
        if beginning.as_str().len() < FEWEST {
            return Ok(None);
        }
        let request = ListRunsRequest { begins: beginning.to_string(), limit: 1_000, ..ListRunsRequest::default() };
        let Ok(page) = self.attempt(self.runs().list_runs(request)).await else { return Ok(None) };
        let mut found: Vec<RunId> = page.runs.iter().filter_map(|run| RunId::new(&run.run_id).ok()).collect();
        // A mediator of an earlier version lists all.
        found.retain(|run| run.as_str().starts_with(beginning.as_str()));
        match found.as_slice() {
            [] => Ok(None),
            found if found.contains(beginning) => Ok(None),
            [one] => Ok(Some(one.clone())),
            [first, second, ..] => Err(Failure::refused(format!(
                "{} Runs have an id that begins with {beginning}, such as {first} and {second}; write more of it",
                found.len()
            ))),
        }
    }

    /// What this status means, as the end of a command. `what` is the sentence "cannot …" without its cause.
    pub(crate) fn failure(&self, what: &str, status: &Status) -> Failure {
        refusal::failure(self.url(), what, status, &self.shown)
    }

    /// The same with the bare status, for those who try again.
    pub(crate) async fn attempt<T>(
        &self,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        let used = self.used.load(Ordering::Relaxed);
        let answer = match tokio::time::timeout(CALL, answer).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => Err(Status::unavailable(format!("no answer within {} seconds", CALL.as_secs()))),
        };
        if answer.as_ref().is_err_and(refusal::is_unreachable) {
            // Whoever tries again, after a pause, tries the next one.
            self.used.store(used.wrapping_add(1), Ordering::Relaxed);
        }
        answer
    }
}

fn serves(answer: Response<HealthCheckResponse>) -> bool {
    answer.into_inner().status() == ServingStatus::Serving
}

fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// What there is to show on every call.
enum Token {
    /// The token, and where it comes from.
    Found(MetadataValue<Ascii>, String),
    /// None; where this host's own was looked for, and why it is not taken from there.
    None { looked: Vec<String> },
}

/// `--token-file`, else `MEDIATOR_TOKEN`, else the admin token of a mediator on this host.
///
/// The last one is sent to loopback addresses only: a URL of elsewhere must not be able to collect it.
fn token(global: &Global, same_host: bool) -> Outcome<Token> {
    let (text, from) = if let Some(path) = &global.token_file {
        let text = file::text_given(path, file::SMALL)
            .map_err(|e| Failure::io(format_args!("--token-file {}", path.display()), &e))?;
        (text, format!("--token-file {}", path.display()))
    } else if let Some(text) = std::env::var("MEDIATOR_TOKEN").ok().filter(|text| !text.is_empty()) {
        (text, "MEDIATOR_TOKEN".into())
    } else if same_host && global.client_cert.is_none() {
        // With a certificate the token that lies around here would be a second, and another, word on who this is.
        match of_this_host(&state_dirs()) {
            Ok((text, path)) => (text, path.display().to_string()),
            Err(looked) => return Ok(Token::None { looked }),
        }
    } else {
        return Ok(Token::None { looked: Vec::new() });
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(Failure::refused(format!("{from}: there is no token in it")));
    }
    let mut value: MetadataValue<Ascii> = format!("Bearer {text}")
        .parse()
        .map_err(|_| Failure::refused(format!("{from}: what is in it is not a token")))?;
    value.set_sensitive(true);
    Ok(Token::Found(value, from))
}

/// The first admin token that can be read; else what is in the way of each.
fn of_this_host(dirs: &[PathBuf]) -> Result<(String, PathBuf), Vec<String>> {
    let mut looked = Vec::new();
    for path in dirs.iter().map(|dir| dir.join("admin.token")) {
        match file::read_text(&path, file::SMALL) {
            Ok(text) => return Ok((text, path)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                looked.push(format!("{} is not there", path.display()))
            }
            Err(e) => looked.push(format!("{} cannot be read ({e})", path.display())),
        }
    }
    Err(looked)
}

/// Where a mediator of this host keeps its state, likeliest first: as this user's configuration says, and as a
/// system service. A configuration that is not valid is not this command's business.
fn state_dirs() -> Vec<PathBuf> {
    let configured = config::load(&Layers::of_process(None, Vec::new())).ok().map(|(config, _)| config.state_dir);
    configured.into_iter().chain([PathBuf::from("/var/lib/mediator")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_this_host_s_own_token_from_being_found_is_told_of_every_place() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("odd/admin.token")).unwrap();
        std::fs::create_dir(at("good")).unwrap();
        let looked = of_this_host(&[at("none"), at("odd")]).unwrap_err();
        assert!(looked[0].ends_with("none/admin.token is not there"), "{looked:?}");
        assert!(looked[1].contains("odd/admin.token cannot be read (it is a directory"), "{looked:?}");
        std::fs::write(at("good/admin.token"), "t").unwrap();
        assert_eq!(of_this_host(&[at("odd"), at("good")]).unwrap(), ("t".to_owned(), at("good/admin.token")));
    }

    #[test]
    fn only_this_host_gets_the_token_that_is_found() {
        for here in ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "::1"] {
            assert!(is_loopback(here), "{here}");
        }
        for elsewhere in ["10.0.0.1", "localhost.example", "127.example", "0.0.0.0", "[::]"] {
            assert!(!is_loopback(elsewhere), "{elsewhere}");
        }
    }
}
