// Package objstore reads and writes objects: files of the local file system, and objects of S3 and what speaks like it.
//
// It owns the one interface through which Sluice meets a store (Store to read, Writer to change), the pins that make a
// read repeatable (every Get may name the ETag it expects), the retries of what passes by itself, and the few errors
// that callers branch on. Keys are bytes: whatever is in them (`+ % # ?`, spaces, UTF-8) reaches the store unchanged;
// nothing here decodes a key.
//
// It never caches, never guesses at a missing object, and never takes credentials from a URI.
package objstore
