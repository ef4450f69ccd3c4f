//! Every call by name, the path it comes in on, and the table of who may make it.

use super::Role;

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $path:literal;)*) => {
        /// A call that needs a token.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names are those of fleet.proto and of the pages")]
        pub enum Call { $($(#[$doc])* $name,)* }

        impl Call {
            /// Every call.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its path, or the part of the path before an id.
            #[must_use]
            pub const fn path(self) -> &'static str {
                match self { $(Self::$name => $path,)* }
            }

            /// Its name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

calls! {
    Advertise = "/fleet.v1.NodeService/Advertise";
    Work = "/fleet.v1.NodeService/Work";
    Report = "/fleet.v1.NodeService/Report";
    PutLog = "/fleet.v1.NodeService/PutLog";
    FindMissingBlobs = "/fleet.v1.NodeService/FindMissingBlobs";
    PutArtifacts = "/fleet.v1.NodeService/PutArtifacts";
    GetArtifacts = "/fleet.v1.NodeService/GetArtifacts";
    Submit = "/fleet.v1.RunService/Submit";
    DryRun = "/fleet.v1.RunService/DryRun";
    GetRun = "/fleet.v1.RunService/GetRun";
    ListRuns = "/fleet.v1.RunService/ListRuns";
    WatchRun = "/fleet.v1.RunService/WatchRun";
    Cancel = "/fleet.v1.RunService/Cancel";
    Explain = "/fleet.v1.RunService/Explain";
    ListAsks = "/fleet.v1.RunService/ListAsks";
    Answer = "/fleet.v1.RunService/Answer";
    GetLog = "/fleet.v1.RunService/GetLog";
    GetRecord = "/fleet.v1.RunService/GetRecord";
    ListNodes = "/fleet.v1.FleetService/ListNodes";
    ListLeases = "/fleet.v1.FleetService/ListLeases";
    ListCapabilities = "/fleet.v1.FleetService/ListCapabilities";
    WatchFleet = "/fleet.v1.FleetService/WatchFleet";
    NodesPage = "/v1/nodes";
    RunsPage = "/v1/runs";
    RunPage = "/v1/runs/";
    LeasesPage = "/v1/leases";
    EventsPage = "/v1/events";
    Metrics = "/metrics";
}

/// How long a call takes, and who sends how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One message, one answer.
    Once,
    /// The caller sends a stream and gets one answer.
    Up,
    /// The caller gets a stream.
    Down,
}

impl Call {
    /// Which shape it has.
    #[must_use]
    pub const fn shape(self) -> Shape {
        match self {
            Self::PutLog | Self::PutArtifacts => Shape::Up,
            Self::Work
            | Self::GetArtifacts
            | Self::WatchRun
            | Self::GetLog
            | Self::GetRecord
            | Self::WatchFleet
            | Self::EventsPage => Shape::Down,
            Self::Advertise
            | Self::Report
            | Self::FindMissingBlobs
            | Self::Submit
            | Self::DryRun
            | Self::GetRun
            | Self::ListRuns
            | Self::Cancel
            | Self::Explain
            | Self::ListAsks
            | Self::Answer
            | Self::ListNodes
            | Self::ListLeases
            | Self::ListCapabilities
            | Self::NodesPage
            | Self::RunsPage
            | Self::RunPage
            | Self::LeasesPage
            | Self::Metrics => Shape::Once,
        }
    }
}

/// What a path needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing: health, readiness, reflection.
    Open,
    /// A token whose role may make this call.
    Needs(Call),
    /// Some token of ours: whoever has none learns nothing about which paths exist.
    Known,
}

const OPEN: [&str; 2] = ["/healthz", "/readyz"];
const OPEN_SERVICES: [&str; 3] =
    ["/grpc.health.v1.Health/", "/grpc.reflection.v1.ServerReflection/", "/grpc.reflection.v1alpha.ServerReflection/"];

impl Access {
    /// What a request for this path needs. What is not named here is not open.
    #[must_use]
    pub fn of(path: &str) -> Self {
        if OPEN.contains(&path) || OPEN_SERVICES.iter().any(|service| path.starts_with(service)) {
            return Self::Open;
        }
        let exact = Call::ALL.iter().find(|call| call.path() == path);
        let below = || Call::ALL.iter().find(|call| call.path().ends_with('/') && path.starts_with(call.path()));
        exact.or_else(below).map_or(Self::Known, |call| Self::Needs(*call))
    }
}

impl Role {
    /// Whether a token of this role may make this call: the whole table.
    #[must_use]
    pub const fn may(self, call: Call) -> bool {
        match call {
            // Agents, and nobody else: not even an admin can speak for a node, so nobody can drain one.
            Call::Advertise
            | Call::Work
            | Call::Report
            | Call::PutLog
            | Call::FindMissingBlobs
            | Call::PutArtifacts
            | Call::GetArtifacts => {
                matches!(self, Self::Node)
            }
            // Cancel is looked at once more: a submitter may end its own Runs only.
            // Whom a contract lets answer is looked at with the answer.
            Call::Submit | Call::DryRun | Call::Cancel | Call::Answer => matches!(self, Self::Submitter | Self::Admin),
            // An owner who drains asks the mediator what it still sees on the machine.
            Call::GetRun | Call::ListNodes => true,
            Call::ListRuns
            | Call::WatchRun
            | Call::Explain
            | Call::ListAsks
            | Call::GetLog
            | Call::GetRecord
            | Call::ListLeases
            | Call::ListCapabilities
            | Call::WatchFleet
            | Call::NodesPage
            | Call::RunsPage
            | Call::RunPage
            | Call::LeasesPage
            | Call::EventsPage
            | Call::Metrics => matches!(self, Self::Submitter | Self::Observer | Self::Admin),
        }
    }
}
