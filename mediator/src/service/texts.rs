//! Contracts that were read lately, by their text: a pipeline submits the same one again and again, and reading it
//! costs more than all else of a submission. What a text says does not change, so nothing here is ever out of date.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shared::{
    contract::{self, Contract},
    domain::Shape,
};

use crate::{error::Error, schema};

/// Above this many it begins anew.
const MOST: usize = 64;
/// Longer texts, in bytes, are read each time: a few of them must not fill the memory.
const LONGEST: usize = 16 * 1024;

/// A contract with what follows from it.
#[derive(Debug, Clone)]
pub struct Read {
    /// The contract.
    pub contract: Arc<Contract>,
    /// SHA-256 of its canonical JSON, hex.
    pub hash: Arc<str>,
    /// What it requires.
    pub shape: Shape,
}

/// The contracts. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Texts(Arc<Mutex<HashMap<Vec<u8>, Read>>>);

impl Texts {
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Read>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a text says.
    ///
    /// # Errors
    /// [`Error::Contract`] names every fault of the text, each time.
    pub async fn read(&self, text: Vec<u8>) -> Result<Read, Error> {
        if let Some(known) = self.lock().get(&text) {
            return Ok(known.clone());
        }
        let key = (text.len() <= LONGEST).then(|| text.clone());
        let contract = parse(text).await?;
        let read = Read {
            hash: contract::contract_hash(&contract).into(),
            shape: Shape::new(&contract.requires),
            contract: Arc::new(contract),
        };
        if let Some(text) = key {
            let mut known = self.lock();
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(text, read.clone());
        }
        Ok(read)
    }
}

/// Parsing up to a mebibyte, and compiling schemas of any size, is work for a thread that may be busy.
pub(super) async fn parse(text: Vec<u8>) -> Result<Contract, Error> {
    const SMALL: usize = 16 * 1024;
    if text.len() <= SMALL
        && let Ok(contract) = contract::parse(&text)
        && !schema::is_in(&contract)
    {
        return Ok(contract);
    }
    // What is wrong with its schemas is told together with whatever else is.
    Ok(schema::apart(move || schema::read_contract(&text)).await??)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::service::bench::one_step;

    #[tokio::test]
    async fn the_same_text_is_read_once_and_what_is_kept_has_an_end() {
        let texts = Texts::default();
        let text = |n: usize| one_step(&format!("c{n}")).into_bytes();
        let first = texts.read(text(0)).await.unwrap();
        let again = texts.read(text(0)).await.unwrap();
        assert!(Arc::ptr_eq(&first.contract, &again.contract));
        assert_ne!(texts.read(text(1)).await.unwrap().hash, first.hash);
        for n in 2..3 * MOST {
            texts.read(text(n)).await.unwrap();
            assert!(texts.lock().len() <= MOST);
        }
        let long = [text(0), vec![b' '; LONGEST]].concat();
        assert_eq!(texts.read(long.clone()).await.unwrap().hash, first.hash);
        assert!(!texts.lock().contains_key(&long));
    }

    #[tokio::test]
    async fn a_contract_with_a_schema_is_not_read_on_the_thread_that_serves() {
        let plain = one_step("c");
        assert!(parse(plain.clone().into_bytes()).now_or_never().is_some_and(|it| it.is_ok()), "cheap enough");
        let form = plain.replace(
            r#""steps": ["#,
            r#""steps": [{"id": "a", "ask": {"question": "?", "form": {"type": "object"}}},"#,
        );
        assert!(parse(form.clone().into_bytes()).now_or_never().is_none());
        assert!(parse(form.into_bytes()).await.is_ok());
    }

    #[tokio::test]
    async fn a_text_with_a_fault_is_told_each_time() {
        let texts = Texts::default();
        for _ in 0..2 {
            assert!(texts.read(b"steps: 1".to_vec()).await.is_err());
        }
        assert!(texts.lock().is_empty());
    }
}
