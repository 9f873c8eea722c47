package main

//go:generate go run ../cmd/openstack-reference -o REFERENCE.md
