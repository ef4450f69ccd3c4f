//! What mediator and agents are made of comes with the next commits.
