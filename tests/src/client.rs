//! Many calls over one connection: the public protocol without a process per call.

use proto::v1::{self, run_service_client::RunServiceClient};
use tokio::runtime::Runtime;
use tonic::{
    metadata::{Ascii, MetadataValue},
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

use crate::mediator::Mediator;

#[derive(Debug, Clone)]
struct Bearer(MetadataValue<Ascii>);

impl tonic::service::Interceptor for Bearer {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, tonic::Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// A submitter with a connection of its own; calls block.
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    client: RunServiceClient<InterceptedService<Channel, Bearer>>,
}

impl Client {
    /// Connects with a fresh admin token.
    #[must_use]
    pub fn connect(mediator: &Mediator) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let bearer = format!("Bearer {}", mediator.token("admin", "many-calls")).parse().expect("a token");
        let endpoint = Endpoint::from_shared(mediator.url()).expect("a URL");
        let channel = runtime.block_on(async { endpoint.connect_lazy() });
        Self { runtime, client: RunServiceClient::with_interceptor(channel, Bearer(bearer)) }
    }

    /// Submits a contract. Returns the Run's state.
    ///
    /// # Errors
    /// The mediator's refusal.
    pub fn submit(&mut self, contract: &str) -> Result<String, tonic::Status> {
        let request = v1::SubmitRequest { contract: contract.as_bytes().to_vec(), ..v1::SubmitRequest::default() };
        let answer = self.runtime.block_on(self.client.submit(request))?.into_inner();
        Ok(answer.run.map(|run| run.state).unwrap_or_default())
    }

    /// Submits all of them, several at a time.
    ///
    /// # Panics
    /// When one is refused.
    pub fn submit_all(&self, contracts: &[String]) {
        use futures::{StreamExt, TryStreamExt};
        let one = |contract: &String| {
            let (mut client, contract) = (self.client.clone(), contract.as_bytes().to_vec());
            async move { client.submit(v1::SubmitRequest { contract, ..v1::SubmitRequest::default() }).await.map(drop) }
        };
        let all = futures::stream::iter(contracts).map(one).buffer_unordered(64).try_collect::<()>();
        self.runtime.block_on(all).expect("every submit is taken");
    }

    /// A Run's state word.
    ///
    /// # Panics
    /// When the mediator cannot answer.
    pub fn state(&mut self, run: &str) -> String {
        let request = v1::GetRunRequest { run_id: run.to_owned() };
        let page = self.runtime.block_on(self.client.get_run(request)).expect("a run's page").into_inner();
        page.run.map(|run| run.state).unwrap_or_default()
    }
}
