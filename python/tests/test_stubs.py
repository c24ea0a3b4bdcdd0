"""The stubs say what the extension has: names, parameters, defaults, and the fields of requests."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import fedtse
from fedtse import _fedtse

STUB = ast.parse(Path(fedtse.__file__).with_name("_fedtse.pyi").read_text())
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
ALL_CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def marks(node):
    return {mark.id for mark in node.decorator_list if isinstance(mark, ast.Name)}


REQUESTS = {name: node for name, node in ALL_CLASSES.items() if "type_check_only" in marks(node)}
CLASSES = {name: node for name, node in ALL_CLASSES.items() if name not in REQUESTS}


def of_stub(node):
    """Name, kind and default of each parameter, without `self`."""
    arguments, found = node.args, []
    places = arguments.posonlyargs + arguments.args
    defaults = [inspect.Parameter.empty] * (len(places) - len(arguments.defaults))
    defaults += [ast.literal_eval(default) for default in arguments.defaults]
    for place, default in zip(places, defaults):
        found.append((place.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD, default))
    for keyword, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        default = inspect.Parameter.empty if default is None else ast.literal_eval(default)
        found.append((keyword.arg, inspect.Parameter.KEYWORD_ONLY, default))
    return [one for one in found if one[0] != "self"]


def of_extension(function):
    parameters = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in parameters if one.name != "self"]


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_every_export_has_a_stub_and_the_other_way_round():
    assert public(vars(_fedtse)) == set(FUNCTIONS) | set(CLASSES)
    assert isinstance(_fedtse.__version__, str)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name):
    assert of_extension(getattr(_fedtse, name)) == of_stub(FUNCTIONS[name])


@pytest.mark.parametrize("name", CLASSES)
def test_a_class(name):
    exported = getattr(_fedtse, name)
    members = {node.name: node for node in CLASSES[name].body if isinstance(node, ast.FunctionDef)}
    assert public(vars(exported)) == public(members)
    if "__init__" in members:
        assert of_extension(exported) == of_stub(members.pop("__init__"))
    for member, node in members.items():
        found = inspect.getattr_static(exported, member)
        assert isinstance(found, staticmethod) == ("staticmethod" in marks(node)), member
        assert inspect.isgetsetdescriptor(found) == ("property" in marks(node)), member
        if "property" not in marks(node) and member != "__len__":
            assert of_extension(getattr(exported, member)) == of_stub(node), member


def fields_of(call, *within):
    """The fields that the extension expects, which it says of one that it does not know."""
    request = {"?": 0}
    for part in reversed(within):
        request = {part: request}
    with pytest.raises(fedtse.FedtseValueError) as refused:
        call(request)
    text = str(refused.value)
    assert text.startswith("?: found an unknown keyword"), text
    return re.search("expected one of (.*)", text)[1].split(", ")


def test_requests_have_the_fields_of_the_structs():
    def train(request):
        _fedtse.train(request, None, [], "wait", None)

    found = {
        "SimulateOptions": fields_of(lambda request: _fedtse.simulate(request, None, None)),
        "FeatureOptions": fields_of(lambda request: _fedtse.features("never", request, None)),
        "TrainArguments": fields_of(train),
        "GuestOptions": fields_of(train, "guest"),
        "FederationOptions": fields_of(train, "federation"),
        "PrivacyOptions": fields_of(train, "federation", "privacy"),
        "PhysicsOptions": fields_of(train, "physics"),
        "RecipeOptions": fields_of(train, "recipe"),
        "EstimateRequest": fields_of(lambda request: _fedtse.estimate(request, {}, None)),
        "ReproduceArguments": fields_of(lambda request: _fedtse.reproduce(request, None)),
        "LedgerArguments": fields_of(_fedtse.audit),
    }
    stubs = {
        name: [field.target.id for field in node.body if isinstance(field, ast.AnnAssign)]
        for name, node in REQUESTS.items()
    }
    assert found == stubs
