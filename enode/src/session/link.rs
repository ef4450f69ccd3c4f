//! The connection to the mediator.
//!
//! The only file that knows tonic's client. Everything outside sees messages, and failures sorted by what
//! they mean. The heartbeat has a link of its own, so that bulk data never stands before a renewal.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration as StdDuration,
};

use proto::v1::{self, node_service_client::NodeServiceClient};
use tonic::{
    Request, Streaming,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use super::retry::CallError;
use crate::{config::Config, files};

type Client = NodeServiceClient<InterceptedService<Channel, Bearer>>;

/// How long a question may stay without an answer.
const ANSWER_WITHIN: StdDuration = StdDuration::from_secs(20);
const CONNECT_WITHIN: StdDuration = StdDuration::from_secs(5);
const KEEPALIVE_EVERY: StdDuration = StdDuration::from_secs(10);
const KEEPALIVE_WITHIN: StdDuration = StdDuration::from_secs(5);

/// Why a link could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Nothing to connect to.
    #[error("no mediator is configured: set `mediator` to its address, such as https://mediator.example:7070")]
    NoMediator,
    /// Not an address.
    #[error("{url:?} is not the address of a mediator: write http://HOST:PORT or https://HOST:PORT")]
    Address {
        /// As configured.
        url: String,
        /// Why.
        source: tonic::transport::Error,
    },
    /// The certificate authority.
    #[error("cannot read the certificate authority {path}")]
    Authority {
        /// As configured.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The client certificate or its key.
    #[error("cannot read {path}")]
    Certificate {
        /// As configured.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// TLS without anything to trust.
    #[error("{0} needs a certificate authority to trust: set `ca_file` to the one that `mediator pki init` made")]
    NoAuthority(String),
    /// The token.
    #[error("the token holds characters that no token has")]
    Token,
}

#[derive(Debug, Clone)]
struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, tonic::Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// A link to the mediator, or to one of several that serve the same fleet: the first one is used until it is gone,
/// then the next. Whoever calls again after a failure pauses before it, so that agents which lost the same mediator
/// do not all come to another at once.
#[derive(Debug)]
pub struct Link {
    mediators: Vec<(String, Client)>,
    /// Which one is used now: one for all links of an agent.
    used: Arc<AtomicUsize>,
}

impl Link {
    /// Prepares the connections; none is opened before the first call. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`LinkError`], a mistake in the configuration.
    pub fn new(config: &Config) -> Result<Self, LinkError> {
        Self::using(config, Arc::default())
    }

    /// A further link of the same agent, to the same mediator. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`LinkError`], a mistake in the configuration.
    pub fn beside(&self, config: &Config) -> Result<Self, LinkError> {
        Self::using(config, self.used.clone())
    }

    fn using(config: &Config, used: Arc<AtomicUsize>) -> Result<Self, LinkError> {
        let authority = match &config.ca_file {
            None => None,
            Some(path) => Some(Certificate::from_pem(
                files::read_small(path)
                    .map_err(|source| LinkError::Authority { path: path.display().to_string(), source })?,
            )),
        };
        let read = |path: &std::path::Path| {
            let certificate = |source| LinkError::Certificate { path: path.display().to_string(), source };
            files::read_small(path).map_err(certificate)
        };
        let identity = match &config.certificate {
            None => None,
            Some((cert, key)) => Some(Identity::from_pem(read(cert)?, read(key)?)),
        };
        let token = match &config.token {
            None => None,
            Some(token) => {
                let mut value: MetadataValue<Ascii> =
                    format!("Bearer {}", token.reveal()).parse().map_err(|_| LinkError::Token)?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let client = |url: &String| {
            let address = |source| LinkError::Address { url: url.clone(), source };
            let mut endpoint = Endpoint::from_shared(url.clone())
                .map_err(address)?
                .connect_timeout(CONNECT_WITHIN)
                .http2_keep_alive_interval(KEEPALIVE_EVERY)
                .keep_alive_timeout(KEEPALIVE_WITHIN)
                .keep_alive_while_idle(true)
                .tcp_nodelay(true);
            if url.starts_with("https:") {
                let authority = authority.clone().ok_or_else(|| LinkError::NoAuthority(url.clone()))?;
                let mut tls = ClientTlsConfig::new().ca_certificate(authority);
                if let Some(identity) = &identity {
                    tls = tls.identity(identity.clone());
                }
                endpoint = endpoint.tls_config(tls).map_err(address)?;
            }
            let client = NodeServiceClient::with_interceptor(endpoint.connect_lazy(), Bearer(token.clone()));
            Ok::<_, LinkError>(client)
        };
        let mediators = config.mediator.iter().map(|url| Ok((url.clone(), client(url)?)));
        let mediators: Vec<_> = mediators.collect::<Result<_, LinkError>>()?;
        if mediators.is_empty() {
            return Err(LinkError::NoMediator);
        }
        Ok(Self { mediators, used })
    }

    /// The address that is used now.
    #[must_use]
    pub fn mediator(&self) -> &str {
        self.mediators.get(self.at()).map_or("", |(url, _)| url)
    }

    fn at(&self) -> usize {
        self.used.load(Ordering::Relaxed) % self.mediators.len()
    }

    /// The mediator that was used gave no answer. Another link may have found that out already.
    fn leave(&self, used: usize, why: &CallError) {
        if self.mediators.len() < 2 || !why.is_silence() {
            return;
        }
        let next = (used + 1) % self.mediators.len();
        if self.used.compare_exchange(used, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            tracing::warn!(error = %why, next = self.mediator(), "the mediator is gone: trying the next one");
        }
    }

    /// Runs one call.
    async fn call<T>(
        &self,
        within: Option<StdDuration>,
        call: impl AsyncFnOnce(Client) -> Result<tonic::Response<T>, tonic::Status>,
    ) -> Result<T, CallError> {
        let used = self.at();
        let Some((_, client)) = self.mediators.get(used) else { return Err(CallError::retry("no mediator")) };
        let call = call(client.clone());
        let answer = match within {
            None => call.await.map_err(CallError::from),
            Some(within) => match tokio::time::timeout(within, call).await {
                Ok(answer) => answer.map_err(CallError::from),
                Err(_) => Err(CallError::retry(format!("no answer within {} s", within.as_secs()))),
            },
        };
        if let Err(why) = &answer {
            self.leave(used, why);
        }
        answer.map(tonic::Response::into_inner)
    }

    /// Heartbeat.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn advertise(
        &self,
        message: v1::AdvertiseRequest,
        within: StdDuration,
    ) -> Result<v1::AdvertiseResponse, CallError> {
        self.call(Some(within), async move |mut client| client.advertise(message).await).await
    }

    /// Opens the work stream.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn work(&self, message: v1::WorkRequest) -> Result<WorkStream, CallError> {
        let stream = self.call(Some(ANSWER_WITHIN), async move |mut client| client.work(message).await).await?;
        Ok(WorkStream(stream))
    }

    /// Ends an attempt.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn report(&self, message: v1::ReportRequest) -> Result<v1::ReportResponse, CallError> {
        self.call(Some(ANSWER_WITHIN), async move |mut client| client.report(message).await).await
    }

    /// Appends to a log; returns the bytes that are stored.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn put_log<S>(&self, messages: S) -> Result<i64, CallError>
    where
        S: tokio_stream::Stream<Item = v1::PutLogRequest> + Send + 'static,
    {
        let answer = self.call(None, async move |mut client| client.put_log(messages).await).await?;
        Ok(answer.stored)
    }

    /// Asks which contents are not stored yet; their places in the list.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn find_missing_blobs(&self, message: v1::FindMissingBlobsRequest) -> Result<Vec<u32>, CallError> {
        let call = async move |mut client: Client| client.find_missing_blobs(message).await;
        Ok(self.call(Some(ANSWER_WITHIN), call).await?.missing)
    }

    /// Stores output files.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn put_artifacts<S>(&self, messages: S) -> Result<(), CallError>
    where
        S: tokio_stream::Stream<Item = v1::PutArtifactsRequest> + Send + 'static,
    {
        self.call(None, async move |mut client| client.put_artifacts(messages).await).await.map(drop)
    }

    /// Fetches input files.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn get_artifacts(&self, message: v1::GetArtifactsRequest) -> Result<PartStream, CallError> {
        let call = async move |mut client: Client| client.get_artifacts(message).await;
        Ok(PartStream(self.call(Some(ANSWER_WITHIN), call).await?))
    }
}

/// Items of a work stream.
#[derive(Debug)]
pub struct WorkStream(Streaming<v1::WorkItem>);

impl WorkStream {
    /// The next item; none when the mediator ended the stream.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn next(&mut self) -> Result<Option<v1::work_item::Item>, CallError> {
        Ok(self.0.message().await?.and_then(|item| item.item))
    }
}

/// Files that come one after the other.
#[derive(Debug)]
pub struct PartStream(Streaming<v1::ArtifactPart>);

impl PartStream {
    /// The beginning of a file, or bytes of it; none at the end.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn next(&mut self) -> Result<Option<v1::artifact_part::Part>, CallError> {
        Ok(self.0.message().await?.and_then(|it| it.part))
    }
}
