//! Numbers of instances and functions in a component that has one instance more and some functions less.

use wasm_encoder::reencode::{Reencode, ReencodeComponent, component_utils};
use wasm_encoder::{ComponentImportSection, InstanceSection, ModuleArg};

use super::{BUILD_EXPORTS, IMAGE, Reencoded};

/// Renumbers: one more core instance, the image, before the main one; and no functions of the builder.
#[derive(Default)]
pub(super) struct Renumber {
    /// The number of the image's module.
    module: u32,
    /// Core instances so far, as they were.
    instances: u32,
    /// The number of the image's instance.
    pub(super) image: Option<u32>,
    /// Component functions so far, as they were.
    functions: u32,
    /// Of these the exports that are gone.
    gone: Vec<u32>,
}

impl Renumber {
    /// For a component whose image is the module of that number.
    pub(super) fn new(module: u32) -> Self {
        Self { module, ..Self::default() }
    }
}

impl Reencode for Renumber {
    type Error = std::convert::Infallible;
}

impl ReencodeComponent for Renumber {
    fn instance_index(&mut self, index: u32) -> u32 {
        if self.image.is_some_and(|image| index >= image) { index + 1 } else { index }
    }

    fn component_func_index(&mut self, index: u32) -> u32 {
        index - self.gone.iter().filter(|gone| **gone < index).count() as u32
    }

    fn parse_instance(&mut self, instances: &mut InstanceSection, instance: wasmparser::Instance<'_>) -> Reencoded<()> {
        match instance {
            wasmparser::Instance::Instantiate { module_index: 0, args } => {
                let image = self.instances;
                self.image = Some(image);
                instances.instantiate(self.module, std::iter::empty::<(&str, ModuleArg)>());
                // What it is given was made before, so those numbers are as they were.
                let given = args.iter().map(|arg| (arg.name, ModuleArg::Instance(arg.index)));
                instances.instantiate(0, given.chain([(IMAGE.0, ModuleArg::Instance(image))]).collect::<Vec<_>>());
            }
            other => component_utils::parse_instance(self, instances, other)?,
        }
        self.instances += 1;
        Ok(())
    }

    fn parse_component_alias_section(
        &mut self,
        aliases: &mut wasm_encoder::ComponentAliasSection,
        section: wasmparser::ComponentAliasSectionReader<'_>,
    ) -> Reencoded<()> {
        for alias in section.clone() {
            if let wasmparser::ComponentAlias::InstanceExport {
                kind: wasmparser::ComponentExternalKind::Func, ..
            } = alias?
            {
                self.functions += 1;
            }
        }
        component_utils::parse_component_alias_section(self, aliases, section)
    }

    fn parse_component_canonical_section(
        &mut self,
        functions: &mut wasm_encoder::CanonicalFunctionSection,
        section: wasmparser::ComponentCanonicalSectionReader<'_>,
    ) -> Reencoded<()> {
        for function in section.clone() {
            if let wasmparser::CanonicalFunction::Lift { .. } = function? {
                self.functions += 1;
            }
        }
        component_utils::parse_component_canonical_section(self, functions, section)
    }

    fn parse_component_import_section(
        &mut self,
        imports: &mut ComponentImportSection,
        section: wasmparser::ComponentImportSectionReader<'_>,
    ) -> Reencoded<()> {
        for import in section.clone() {
            if let wasmparser::ComponentExternalKind::Func = import?.ty.kind() {
                self.functions += 1;
            }
        }
        component_utils::parse_component_import_section(self, imports, section)
    }

    fn parse_component_export_section(
        &mut self,
        exports: &mut wasm_encoder::ComponentExportSection,
        section: wasmparser::ComponentExportSectionReader<'_>,
    ) -> Reencoded<()> {
        for export in section {
            let export = export?;
            let is_function = export.kind == wasmparser::ComponentExternalKind::Func;
            if is_function && BUILD_EXPORTS.contains(&export.name.name) {
                self.gone.push(self.functions);
            } else {
                self.parse_component_export(exports, export)?;
            }
            self.functions += u32::from(is_function);
        }
        Ok(())
    }
}
