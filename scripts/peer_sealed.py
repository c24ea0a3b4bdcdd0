#!/usr/bin/env python3
"""The same products as `sealed_speed`, by others:

    peer_sealed.py tenseal|phe-2048|phe-3072|opendp ROWS COLUMNS [--sample N]

Prints one line of JSON: processor seconds for ROWS products with a vector of COLUMNS values, encryption and
decryption included, keys not. Paillier (phe) does N rows and N values only, and multiplies: each row and each
value costs the same. `opendp` prints counts of 200 000 draws of discrete Gaussian noise instead, for
`bench_sealed.py --check-noise`; ROWS is then 1000 times its standard deviation.
"""

import argparse
import json
import time

import numpy as np


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=["tenseal", "phe-2048", "phe-3072", "opendp"])
    parser.add_argument("rows", type=int)
    parser.add_argument("columns", type=int)
    parser.add_argument("--sample", type=int, default=4)
    arguments = parser.parse_args()
    if arguments.tool == "opendp":
        print(json.dumps(noise(arguments.rows / 1000)))
        return
    random = np.random.default_rng(1)
    matrix = random.standard_normal((arguments.rows, arguments.columns))
    vector = random.random(arguments.columns)
    if arguments.tool == "tenseal":
        print(json.dumps(tenseal(matrix, vector)))
    else:
        print(json.dumps(paillier(matrix, vector, int(arguments.tool[4:]), arguments.sample)))


def tenseal(matrix, vector):
    import tenseal as ts

    # One ciphertext has 4096 slots, and its product with a matrix is right for rows + columns up to that.
    # One product needs one level: a prime more would only make it slower.
    context = ts.context(ts.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 60], n_threads=1)
    context.global_scale = 2**40
    context.generate_galois_keys()
    keys = len(context.serialize(save_secret_key=False))
    columns = matrix.T.tolist()
    begin = time.process_time()
    encrypted = ts.ckks_vector(context, vector.tolist())
    product = encrypted.mm(columns)
    found = np.array(product.decrypt())
    seconds = time.process_time() - begin
    return {
        "seconds": seconds,
        "error": float(np.abs(found - matrix @ vector).max()),
        "up": len(encrypted.serialize()) + keys,
        "down": len(product.serialize()),
    }


def paillier(matrix, vector, bits, sample):
    from phe import paillier as scheme

    public, private = scheme.generate_paillier_keypair(n_length=bits)
    rows, columns = matrix.shape
    part = vector[: min(columns, 16 * sample)]
    begin = time.process_time()
    # One precision for all: numbers of different exponents would cost a multiplication more in each sum.
    encrypted = [public.encrypt(float(value), precision=2**-16) for value in part]
    encrypting = (time.process_time() - begin) / len(part)
    rest = [encrypted[i % len(encrypted)] for i in range(columns)]
    begin = time.process_time()
    worst = 0.0
    for row in matrix[:sample]:
        weights = [scheme.EncodedNumber.encode(public, float(a), precision=2**-20) for a in row]
        total = sum((rest[i] * weights[i] for i in range(1, columns)), rest[0] * weights[0])
        expected = sum(row[i] * part[i % len(part)] for i in range(columns))
        worst = max(worst, abs(private.decrypt(total) - expected))
    per_row = (time.process_time() - begin) / sample
    return {
        "seconds": encrypting * columns + per_row * rows,
        "error": worst,
        "sample": sample,
        "up": columns * bits // 4,
        "down": rows * bits // 4,
    }


def noise(sigma):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    mechanism = dp.m.make_gaussian(*space, scale=sigma)
    draws = [mechanism(0) for _ in range(200_000)]
    values, counts = np.unique(draws, return_counts=True)
    return {"counts": {int(value): int(count) for value, count in zip(values, counts)}}


main()
