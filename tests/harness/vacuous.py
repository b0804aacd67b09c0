"""Expectations that hold because they look at nothing.

`all(... for x in y)` and `[x for x in y if wrong(x)] == []` hold when y is empty, too. Then the answer may be
anything: what such an expression looks at must be there.
"""

import ast
import copy


def _empty(node):
    return isinstance(node, (ast.List, ast.Set)) and not node.elts


def _comprehensions(expression):
    """Those of the forms above, without the condition that each element has to meet."""
    for node in ast.walk(ast.parse(expression, mode="eval")):
        if (isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)
                and isinstance(node.left, (ast.ListComp, ast.SetComp)) and _empty(node.comparators[0])):
            generators = copy.deepcopy(node.left.generators)
            if generators[-1].ifs:
                generators[-1].ifs.pop()
            yield generators
        elif (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "all" and node.args
              and isinstance(node.args[0], (ast.GeneratorExp, ast.ListComp))):
            yield copy.deepcopy(node.args[0].generators)


def _elements(generators):
    """What the first loop goes over, if the expression lists it: each of it has to be found. Else all as one."""
    first = generators[0]
    if not isinstance(first.iter, (ast.List, ast.Tuple)):
        yield generators
        return
    for element in first.iter.elts:
        yield [ast.comprehension(first.target, ast.List([element], ast.Load()), first.ifs, 0), *generators[1:]]


def looks_at_nothing(expression, evaluate):
    """The loops of `expression` that have no element, as text. `evaluate` takes an expression."""
    found = []
    for generators in _comprehensions(expression):
        for part in _elements(generators):
            # A number for each: what the loops go over may not be comparable.
            loops = ast.unparse(ast.ListComp(ast.Constant(1), part))
            try:
                elements = evaluate(loops)
            except NameError:
                continue  # a loop in another one
            if not elements:
                found.append(loops.removeprefix("[1 ").removesuffix("]"))
    return found
