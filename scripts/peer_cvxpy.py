#!/usr/bin/env python3
"""Solves the queue programs of a scene by CVXPY with Clarabel:

    .venv-peers/bin/python scripts/peer_cvxpy.py SCENE

The scene is written by the example `queue_speed`. Each program is stated and solved as a user would:
weighted least squares under linear limits. Prints JSON: seconds a program, seconds in the solver alone,
and the largest difference to the solutions in the scene, in vehicles.
"""

import json
import sys
import time

import cvxpy
import numpy
from scipy import sparse


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        programs = json.load(file)
    seconds, solver, difference = [], [], 0.0
    for program in programs:
        begin = time.perf_counter()
        unknowns, inside = solve(program)
        seconds.append(time.perf_counter() - begin)
        solver.append(inside)
        # The last unknown is that of a loop, which these programs do not have.
        off = numpy.abs(unknowns - numpy.array(program["solution"]))[:-1]
        difference = max(difference, float(off.max()))
    print(json.dumps({
        "programs": len(programs),
        "seconds": sum(seconds) / len(programs),
        "solver_seconds": sum(solver) / len(programs),
        "difference": difference,
    }))


def solve(program):
    count = program["unknowns"]
    x = cvxpy.Variable(count)
    measured, limits = program["measured"], program["limits"]
    roots = numpy.sqrt([weight for _, _, weight in measured])
    values = numpy.array([value for _, value, _ in measured])
    terms = sparse.diags_array(roots) @ matrix([row[0] for row in measured], count)
    objective = cvxpy.Minimize(0.5 * cvxpy.sum_squares(terms @ x - roots * values))
    most = numpy.array([row[1] for row in limits])
    problem = cvxpy.Problem(objective, [matrix([row[0] for row in limits], count) @ x <= most])
    problem.solve(solver=cvxpy.CLARABEL)
    return x.value, problem.solver_stats.solve_time


def matrix(rows, columns):
    places = [(at, unknown) for at, row in enumerate(rows) for unknown, _ in row]
    factors = [factor for row in rows for _, factor in row]
    down, across = zip(*places)
    return sparse.csr_array(sparse.coo_array((factors, (down, across)), shape=(len(rows), columns)))


if __name__ == "__main__":
    main()
