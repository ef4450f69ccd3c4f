//! What tests of the whole system share. It knows neither mediator nor agent, so that both can use it.

pub mod postgres;
