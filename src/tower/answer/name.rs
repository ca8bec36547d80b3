//! The name of a rule, as clients see it.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::tower::answer::refusal::problem;

/// The name of a rule, as clients see it in headers and problem details: printable ASCII.
///
/// ```
/// use tollgate::tower::{PolicyError, PolicyName};
///
/// assert_eq!(PolicyName::new("per-address")?.as_str(), "per-address");
/// assert_eq!(PolicyName::new(""), Err(PolicyError::Empty));
/// assert_eq!(PolicyName::new("größe"), Err(PolicyError::Character { character: 'ö' }));
/// # Ok::<(), PolicyError>(())
/// ```
#[derive(Clone)]
pub struct PolicyName(Arc<Name>);

struct Name {
    text: Box<str>,
    /// Problem details of a refusal by this rule alone.
    problem: Bytes,
}

impl PolicyName {
    /// A name.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if it is empty, or has a character that is not printable ASCII.
    ///
    /// ```
    /// # use tollgate::tower::PolicyName;
    /// assert!(PolicyName::new("day").is_ok());
    /// assert!(PolicyName::new("two\nlines").is_err());
    /// ```
    pub fn new(name: &str) -> Result<PolicyName, PolicyError> {
        if name.is_empty() {
            return Err(PolicyError::Empty);
        }
        match name.chars().find(|character| !(' '..='~').contains(character)) {
            Some(character) => Err(PolicyError::Character { character }),
            None => Ok(PolicyName::of(name)),
        }
    }

    /// The name of a rule that has been given none.
    pub(in crate::tower) fn standard() -> PolicyName {
        PolicyName::of("default")
    }

    fn of(name: &str) -> PolicyName {
        PolicyName(Arc::new(Name { text: name.into(), problem: problem([name].into_iter()) }))
    }

    /// Problem details of a refusal by this rule alone.
    pub(in crate::tower) fn problem(&self) -> Bytes {
        self.0.problem.clone()
    }

    /// The text.
    ///
    /// ```
    /// # use tollgate::tower::PolicyName;
    /// assert_eq!(PolicyName::new("day")?.as_str(), "day");
    /// # Ok::<(), tollgate::tower::PolicyError>(())
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl PartialEq for PolicyName {
    fn eq(&self, other: &PolicyName) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for PolicyName {}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.text.fmt(f)
    }
}

/// Why a text is no name of a rule.
///
/// ```
/// use tollgate::tower::PolicyName;
///
/// let error = PolicyName::new("größe").unwrap_err();
/// assert_eq!(error.to_string(), "name of a rule: 'ö'; it must be printable ASCII");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// It is empty.
    Empty,
    /// It has a character that is not printable ASCII.
    Character {
        /// The first of them.
        character: char,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::Empty => f.write_str("name of a rule: it is empty"),
            PolicyError::Character { character } => {
                write!(f, "name of a rule: {character:?}; it must be printable ASCII")
            }
        }
    }
}

impl core::error::Error for PolicyError {}
