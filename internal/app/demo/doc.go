// Package demo loads the flights sample end to end, kills the loader in the middle, and proves by SQL that each row is
// there once. It uses what any producer and reader uses: the API, the warehouse's port, and a loader in a process of its
// own. It owns its data directory and nothing else.
package demo
