//! The types of the one module.

use std::collections::HashMap;

use wasm_encoder::TypeSection;
use wasm_encoder::reencode::{Reencode as _, RoundtripReencoder};
use wasmparser::FuncType;

use super::link::Error;

/// Types without doubles.
#[derive(Default)]
pub(super) struct Types {
    pub(super) all: Vec<FuncType>,
    known: HashMap<FuncType, u32>,
}

impl Types {
    /// The number of a type.
    pub(super) fn index(&mut self, ty: &FuncType) -> u32 {
        if let Some(index) = self.known.get(ty) {
            return *index;
        }
        let index = self.all.len() as u32;
        self.all.push(ty.clone());
        self.known.insert(ty.clone(), index);
        index
    }

    pub(super) fn section(&self) -> Result<TypeSection, Error> {
        let mut section = TypeSection::new();
        for ty in &self.all {
            let (parameters, results) = values(ty)?;
            section.ty().function(parameters, results);
        }
        Ok(section)
    }
}

pub(super) type Values = Vec<wasm_encoder::ValType>;

/// Parameters and results.
pub(super) fn values(ty: &FuncType) -> Result<(Values, Values), Error> {
    let value = |kind: &wasmparser::ValType| RoundtripReencoder.val_type(*kind);
    let parameters = ty.params().iter().map(value).collect::<Result<_, _>>()?;
    Ok((parameters, ty.results().iter().map(value).collect::<Result<_, _>>()?))
}
