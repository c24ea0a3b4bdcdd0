#!/usr/bin/env bash
# Makes the seeds that are files of a dataset anew: needed when the form of a manifest or table
# changes, which the targets of manifests notice. Needs `cargo build --release`.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fedtse=target/release/fedtse
"$fedtse" import csv fuzz/seeds/csv_trajectories/drive.csv --network fuzz/network.toml --out "$folder/data"
"$fedtse" features "$folder/data" --rates 20 >/dev/null
cp "$folder/data/manifest.json" fuzz/seeds/dataset_manifest/
cp "$folder/data/trajectories.parquet" fuzz/seeds/dataset_trajectories/
cp "$folder/data/vehicles.parquet" fuzz/seeds/dataset_vehicles/
cp "$folder/data/features/manifest.json" fuzz/seeds/features_manifest/
cp "$folder/data/features/all.parquet" fuzz/seeds/features_table/
