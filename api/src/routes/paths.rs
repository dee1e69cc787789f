//! Parameters in paths, for the OpenAPI document. Handlers take them by [`crate::auth::Ns`] and [`crate::extract::Named`].

use sless_core::{FunctionName, Namespace, SecretName, TriggerName};
use utoipa::IntoParams;

macro_rules! path_params {
    ($($(#[$doc:meta])* $type:ident { $($(#[$fdoc:meta])* $field:ident: $ftype:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(IntoParams)]
            #[into_params(parameter_in = Path)]
            #[expect(dead_code, reason = "describes, is never made")]
            pub(super) struct $type { $($(#[$fdoc])* $field: $ftype,)* }
        )*
    };
}

path_params! {
    /// Everything of a namespace.
    InNamespace {
        /// The caller's namespace.
        ns: Namespace,
    }
    /// A function.
    OfFunction {
        /// The caller's namespace.
        ns: Namespace,
        /// The function.
        name: FunctionName,
    }
    /// A trigger.
    OfTrigger {
        /// The caller's namespace.
        ns: Namespace,
        /// The trigger.
        name: TriggerName,
    }
    /// A secret.
    OfSecret {
        /// The caller's namespace.
        ns: Namespace,
        /// The secret.
        name: SecretName,
    }
    /// A call.
    OfInvocation {
        /// The caller's namespace.
        ns: Namespace,
        /// The call's id, as in `X-Sless-Invocation-Id`.
        id: uuid::Uuid,
    }
}
