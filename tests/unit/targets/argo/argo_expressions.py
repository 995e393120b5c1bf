"""The expression language of Argo's ``{{=…}}`` tags, as much of it as Trireme writes.

As documented in https://expr-lang.org/docs/language-definition, with the values of Go: numbers from
JSON are floats, a missing member of a map is null, and a member of null is an error.
"""

import hashlib
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?!\.\d))|(?P<string>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<name>[A-Za-z_]\w*|#\w*)"
    r"|(?P<operator>\?\?|\?\.|\.\.|\|\||&&|==|!=|<=|>=|[-+*/<>!?:.,;|=(){}\[\]]))",
    re.DOTALL,
)
PRECEDENCE = {
    "|": 0,
    "||": 10,
    "&&": 15,
    "==": 20,
    "!=": 20,
    "<": 20,
    ">": 20,
    "<=": 20,
    ">=": 20,
    "startsWith": 20,
    "contains": 20,
    "..": 25,
    "+": 30,
    "-": 30,
    "*": 60,
    "/": 60,
    "??": 500,
}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "'": "'", '"': '"', "\\": "\\"}


class ExpressionError(Exception):
    """The expression cannot be evaluated."""


Node = Callable[[dict[str, Any]], Any]


def evaluate(expression: str, names: dict[str, Any]) -> Any:
    """Returns what an expression evaluates to, given nested maps of names."""
    return Parser(expression).whole()(names)


def used(expression: str) -> set[str]:
    """Returns the names that an expression begins a member access with."""
    tokens = Parser(expression).tokens
    return {
        text
        for index, (kind, text) in enumerate(tokens)
        if kind == "name" and (index == 0 or tokens[index - 1][1] not in (".", "?."))
    }


def words(expression: str) -> set[str]:
    """Returns all words of an expression, those of the language and keys of maps among them."""
    return {text for kind, text in Parser(expression).tokens if kind == "name"}


class Parser:
    """Makes functions of an expression's text."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text.rstrip()):
            match = TOKEN.match(text, position)
            if match is None:
                raise ExpressionError(f"{text[position:]!r} is no token")
            self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            position = match.end()
        self.at = 0

    def whole(self) -> Node:
        node = self.expression()
        if self.at < len(self.tokens):
            raise ExpressionError(f"unexpected {self.peek()!r}")
        return node

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def next(self) -> tuple[str, str]:
        self.at += 1
        return self.tokens[self.at - 1]

    def take(self, text: str) -> bool:
        if self.peek() == text:
            self.at += 1
            return True
        return False

    def need(self, text: str) -> None:
        if not self.take(text):
            raise ExpressionError(f"{text!r} is needed, not {self.peek()!r}")

    def expression(self) -> Node:
        if self.take("let"):
            name = self.next()[1]
            self.need("=")
            value = self.expression()
            self.need(";")
            body = self.expression()
            return lambda names: body({**names, name: value(names)})
        node = self.binary(0)
        if self.take("?"):
            then = self.expression()
            self.need(":")
            other = self.expression()
            return lambda names: then(names) if truth(node(names)) else other(names)
        return node

    def binary(self, least: int) -> Node:
        node = self.unary()
        while self.peek() in PRECEDENCE and PRECEDENCE[self.peek()] >= least:
            operator = self.next()[1]
            if operator == "|":
                name = self.next()[1]
                self.need("(")
                node = self.call(name, [node])
                node = self.after(node)
            else:
                node = operation(operator, node, self.binary(PRECEDENCE[operator] + 1))
        return node

    def unary(self) -> Node:
        if self.take("!"):
            inside = self.unary()
            return lambda names: not truth(inside(names))
        if self.take("-"):
            inside = self.unary()
            return lambda names: -inside(names)
        return self.after(self.primary())

    def primary(self) -> Node:
        kind, text = self.next()
        if kind == "number":
            number = float(text) if "." in text else int(text)
            return lambda names: number
        if kind == "string":
            string = unescaped(text[1:-1])
            return lambda names: string
        if text == "(":
            inside = self.expression()
            self.need(")")
            return inside
        if text == "[":
            items = self.listed("]")
            return lambda names: [item(names) for item in items]
        if text == "{":
            return self.map_literal()
        if text in ("true", "false", "nil"):
            value = {"true": True, "false": False, "nil": None}[text]
            return lambda names: value
        if kind != "name":
            raise ExpressionError(f"unexpected {text!r}")
        if self.take("("):
            return self.call(text, [])
        return lambda names: known(names, text)

    def map_literal(self) -> Node:
        members: list[tuple[Node, Node]] = []
        while not self.take("}"):
            kind, text = self.next()
            key: Node
            if text == "(":
                key = self.expression()
                self.need(")")
            else:
                name = unescaped(text[1:-1]) if kind == "string" else text
                key = lambda names, name=name: name  # noqa: E731
            self.need(":")
            members.append((key, self.expression()))
            self.take(",")
        return lambda names: {key(names): value(names) for key, value in members}

    def listed(self, end: str) -> list[Node]:
        items = []
        while not self.take(end):
            items.append(self.expression())
            self.take(",")
        return items

    def after(self, node: Node) -> Node:
        """Returns a node with the member accesses and calls that follow it."""
        while True:
            optional = self.peek() == "?."
            if self.take(".") or self.take("?."):
                if optional and self.take("["):
                    key = self.expression()
                    self.need("]")
                else:
                    name = self.next()[1]
                    if self.take("("):
                        node = function_of(node, name, self.listed(")"))
                        continue
                    key = lambda names, name=name: name  # noqa: E731
                node = member(node, key, optional)
                if optional:
                    # What follows a null that was allowed for is null, too.
                    node = self.rest(node)
            elif self.take("["):
                key = self.expression()
                self.need("]")
                node = member(node, key, False)
            else:
                return node

    def rest(self, node: Node) -> Node:
        inner = Parser.__new__(Parser)
        inner.tokens, inner.at = self.tokens, self.at
        box: dict[str, Any] = {}
        chained = inner.after(lambda names: box["value"])
        self.at = inner.at

        def value(names: dict[str, Any]) -> Any:
            box["value"] = node(names)
            return None if box["value"] is None else chained(names)

        return value

    def call(self, name: str, first: list[Node]) -> Node:
        arguments = first + self.listed(")")
        if name in ("map", "filter", "reduce"):
            return loop(name, arguments)
        if name not in FUNCTIONS:
            raise ExpressionError(f"there is no function {name}")
        return lambda names: FUNCTIONS[name](*(argument(names) for argument in arguments))


def operation(operator: str, left: Node, right: Node) -> Node:
    def value(names: dict[str, Any]) -> Any:
        one = left(names)
        if operator == "??":
            return right(names) if one is None else one
        if operator == "&&":
            return truth(one) and truth(right(names))
        if operator == "||":
            return truth(one) or truth(right(names))
        other = right(names)
        if operator == "..":
            return list(range(one, other + 1))
        if operator in ("==", "!="):
            return equal(one, other) is (operator == "==")
        if operator == "startsWith":
            return text(one).startswith(text(other))
        if operator == "contains":
            return text(other) in text(one)
        if {type(one), type(other)} - {int, float} and not isinstance(one, str) | isinstance(
            other, str
        ):
            raise ExpressionError(f"{one!r} {operator} {other!r}")
        return {
            "+": lambda: one + other,
            "-": lambda: one - other,
            "*": lambda: one * other,
            "/": lambda: one / other,
            "<": lambda: one < other,
            ">": lambda: one > other,
            "<=": lambda: one <= other,
            ">=": lambda: one >= other,
        }[operator]()

    return value


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def member(node: Node, key: Node, optional: bool) -> Node:
    def value(names: dict[str, Any]) -> Any:
        of, name = node(names), key(names)
        if of is None:
            if optional:
                return None
            raise ExpressionError(f"cannot fetch {name} from nil")
        if isinstance(of, list):
            return of[name]
        return of.get(name)

    return value


def function_of(node: Node, name: str, arguments: list[Node]) -> Node:
    return lambda names: node(names)[name](*(argument(names) for argument in arguments))


def known(names: dict[str, Any], name: str) -> Any:
    if name not in names:
        raise ExpressionError(f"unknown name {name}")
    return names[name]


def loop(name: str, arguments: list[Node]) -> Node:
    def value(names: dict[str, Any]) -> Any:
        items = arguments[0](names)
        if not isinstance(items, list):
            raise ExpressionError(f"{name} over {items!r}")
        if name == "map":
            return [arguments[1]({**names, "#": item}) for item in items]
        if name == "filter":
            return [item for item in items if arguments[1]({**names, "#": item})]
        result = arguments[2](names)
        for item in items:
            result = arguments[1]({**names, "#": item, "#acc": result})
        return result

    return value


def truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ExpressionError(f"{value!r} is not true or false")
    return value


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ExpressionError(f"{value!r} is no string")
    return value


def from_json(value: Any) -> Any:
    try:
        return json.loads(text(value), parse_int=float)
    except ValueError as error:
        raise ExpressionError(str(error)) from None


def to_json(value: Any) -> str:
    """Encodes as Go does: keys in order, no spaces, whole floats as integers."""

    def plain(value: Any) -> Any:
        if isinstance(value, float) and value == int(value) and abs(value) < 1e21:
            return int(Decimal(repr(value)))
        if isinstance(value, dict):
            return {key: plain(value[key]) for key in sorted(value)}
        return [plain(each) for each in value] if isinstance(value, list) else value

    encoded = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        encoded = encoded.replace(letter, f"\\u{ord(letter):04x}")
    return encoded


def number(value: Any) -> int:
    if isinstance(value, bool):
        raise ExpressionError(f"invalid operation: int({value})")
    return int(float(value))


def kind(value: Any) -> str:
    names = {str: "string", bool: "bool", list: "array", dict: "map", int: "int", float: "float"}
    return "nil" if value is None else names[type(value)]


def string(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def unescaped(inside: str) -> str:
    def letter(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        return chr(int(code, 16)) if code else ESCAPES[match[3]]

    return re.sub(r"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", letter, inside)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "fromJSON": from_json,
    "toJson": to_json,
    "replace": lambda value, old, new: text(value).replace(old, new),
    "trim": lambda value: text(value).strip(),
    "lower": lambda value: text(value).lower(),
    "join": lambda items, between: between.join(map(text, items)),
    "concat": lambda *lists: [item for each in lists for item in each] or None,  # Go's nil
    "len": len,
    "type": kind,
    "int": number,
    "float": float,
    "string": string,
}
SPRIG = {"sha256sum": lambda value: hashlib.sha256(value.encode()).hexdigest()}
