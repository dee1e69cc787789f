//! `node:…`, the only modules that a bundle leaves outside.

use rquickjs_core::loader::{ImportAttributes, Loader, Resolver};
use rquickjs_core::module::Declared;
use rquickjs_core::{Ctx, Exception, Function, Module, Result};

use super::core;

/// How the message of a missing module begins; `js/builtins.js` has the same words.
pub(super) const NOT_HERE: &str = "there is no module ";
/// What to do then.
pub(super) const MISSING_REMEDY: &str = "add the package to the dependencies in package.json with its lock file; a module of Node \
                              itself that is missing here is there in the runtime nodejs20";

/// Before the name of the user's file, where this side asks for it.
pub(super) const MAIN: &str = "sless-main:";

/// Resolves and loads them.
#[derive(Clone, Copy)]
pub(super) struct Builtins;

impl Resolver for Builtins {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        _base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        if let Some(main) = name.strip_prefix(MAIN) {
            return Ok(main.to_owned());
        }
        let find: Function<'js> = core(ctx)?.get("findBuiltin")?;
        let found: Option<String> = find.call((name,))?;
        found.ok_or_else(|| Exception::throw_message(ctx, &format!("{NOT_HERE}`{name}`")))
    }
}

impl Loader for Builtins {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        let source: String = core(ctx)?.get::<_, Function<'js>>("builtinSource")?.call((name,))?;
        Module::declare(ctx.clone(), name, source)
    }
}
