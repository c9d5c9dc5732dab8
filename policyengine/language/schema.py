"""JSON Schemas (2020-12) of the files that people write, made from the models that read them.

An editor completes, explains and checks with them what the command line checks for certain. A schema says less than the
models where JSON Schema cannot: whether a parameter that is used is declared, whether a default lies within its own
limits, whether `1.0` was written where an integer is wanted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core import core_schema

from policyengine.language import limits, parameters, policy
from policyengine.language.policy import Header
from policyengine.language.policy_test import PolicyTests
from policyengine.language.project import ProjectForm
from policyengine.language.rules import KINDS
from policyengine.language.strict import exactly_one, some_of

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Keywords in the order in which they are written. What a person reads first comes first, and no release of pydantic
# changes the files by giving another order.
_KEYWORDS = (
    "$schema title description type const enum default minimum maximum minLength maxLength pattern patternErrorMessage "
    "minItems maxItems uniqueItems items minProperties maxProperties propertyNames properties additionalProperties "
    "required dependentRequired dependentSchemas anyOf oneOf allOf not if then $ref $defs"
)
_ORDER = _KEYWORDS.split()
_OF_SCHEMAS = ("properties", "dependentSchemas", "$defs")  # keywords whose value is a mapping of names to schemas
_VALUES = ("const", "default", "dependentRequired")  # keywords whose value is no schema
_SHAPE = {"title", "description", "type", "properties", "required", "additionalProperties"}


class _Generator(GenerateJsonSchema):
    """pydantic's schemas as our reader means them."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> Schema:
        """None stands for a key that is left out; a key without a value is refused."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> Schema:
        """Defaults that say something; an editor would write out the others."""
        made = super().default_schema(schema)
        if made.get("default") in (None, ""):
            made.pop("default", None)
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Titles are the keys as they are written; see `_finished`."""
        return False


def policy_schema() -> Schema:
    """Of a policy file."""
    forms = [kind.form for kind in KINDS.values()]
    defs = _definitions(Header, *forms, *parameters.FORMS.values())
    root = defs.pop("Header")
    rules, declared = root["properties"]["rules"], root["properties"]["parameters"]
    rules["additionalProperties"] = {"$ref": "#/$defs/Rule"}
    rules["propertyNames"] = _name(policy.RULE_ID.pattern)
    declared["additionalProperties"] = {"$ref": "#/$defs/Parameter"}
    declared["propertyNames"] = _name(parameters.NAME.pattern) | {"not": {"enum": [*parameters.RESERVED]}}
    defs["Rule"] = _rule({kind.key: defs.pop(kind.form.__name__) for kind in KINDS.values()})
    defs["Parameter"] = {
        "description": "A value that a request may pass.",
        "oneOf": [{"$ref": f"#/$defs/{form.__name__}"} for form in parameters.FORMS.values()],
    }
    return _finished(root, defs, "policyengine policy", "Rules for what a model may write.")


def project_schema() -> Schema:
    """Of `policyengine.yaml`."""
    defs = _definitions(ProjectForm)
    root = defs.pop("ProjectForm")
    return _finished(root, defs, "policyengine project", "What the policies beside and below this file share.")


def test_schema() -> Schema:
    """Of `*.test.yaml`."""
    defs = _definitions(PolicyTests)
    root = defs.pop("PolicyTests")
    return _finished(root, defs, "policyengine policy tests", "Texts, and what the policies must make of them.")


SCHEMAS: Mapping[str, Callable[[], Schema]] = {
    "policy.schema.json": policy_schema,
    "project.schema.json": project_schema,
    "policy-test.schema.json": test_schema,
}


def files() -> dict[str, str]:
    """Every schema as a file: name to content, the same on every machine."""
    return {name: text(make()) for name, make in SCHEMAS.items()}


def text(schema: Schema) -> str:
    """A schema as it is written."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _definitions(*models: type[BaseModel]) -> dict[str, Schema]:
    """The schemas of models and of what they refer to, by the names of the models."""
    _, made = models_json_schema([(model, "validation") for model in models], schema_generator=_Generator)
    defs: dict[str, Schema] = made["$defs"]
    return defs


def _name(pattern: str) -> Schema:
    return {"pattern": f"^{pattern}$", "maxLength": limits.NAME_LENGTH.default}


def _rule(forms: Mapping[str, Schema]) -> Schema:
    """One schema for a rule of any kind.

    As a choice between one schema a kind, an editor would tell a person who mistyped a key of a ban what a force needs.
    Here every key has its place, and conditions say which go together.
    """
    properties: dict[str, Schema] = {}
    kinds_of: dict[str, list[str]] = {}
    conditions = []
    for kind, form in forms.items():
        for key, schema in form["properties"].items():
            if properties.setdefault(key, schema) != schema:
                raise ValueError(f"rule kinds differ in what `{key}` means")
            kinds_of.setdefault(key, []).append(kind)
        if form["required"] != [kind]:
            raise ValueError(f"a rule that has `{kind}` must need no other key")
        own = {key: value for key, value in form.items() if key not in _SHAPE}
        conditions += [{"if": some_of(kind), "then": own}] if own else []
    narrow = {key: kinds for key, kinds in kinds_of.items() if len(kinds) < len(forms) and key not in forms}
    one = exactly_one(*forms)
    rule: Schema = {
        "type": "object",
        "description": f"A rule: one of {', '.join(forms)}, and what goes with it.",
        "properties": {key: properties[key] for key in sorted(properties, key=lambda key: _rank(key, forms, narrow))},
        "additionalProperties": False,
        **one,
        "dependentSchemas": one["dependentSchemas"] | {key: some_of(*kinds) for key, kinds in narrow.items()},
        "allOf": conditions,
    }
    return rule


def _rank(key: str, forms: Iterable[str], narrow: Iterable[str]) -> int:
    """Kinds first, then what belongs to some of them, then what every rule may have."""
    return 0 if key in forms else 1 if key in narrow else 2


def _finished(root: Schema, defs: dict[str, Schema], title: str, description: str) -> Schema:
    """The whole schema: its head, a title for every key, keywords in order."""
    for name, schema in defs.items():
        schema["title"] = name.removesuffix("Form")
    for schema in (root, *defs.values()):
        for key, value in schema.get("properties", {}).items():
            value["title"] = key
    root |= {"$schema": DIALECT, "title": title, "description": description}
    if defs:
        root["$defs"] = {name: defs[name] for name in sorted(defs)}
    ordered: Schema = _ordered(root)
    return ordered


def _ordered(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_ordered(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key in sorted(schema, key=lambda key: _ORDER.index(key)):
        value = schema[key]
        if key == "description":
            result[key] = value.replace("`", "")  # editors show it as plain text
        elif key in _OF_SCHEMAS:
            result[key] = {name: _ordered(inner) for name, inner in value.items()}
        else:
            result[key] = value if key in _VALUES else _ordered(value)
    return result
