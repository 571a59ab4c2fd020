// Package jsonscan reads JSON where exactness counts: keys match by exact case, integers keep their 64 bits, strings are
// valid UTF-8, nesting and sizes are limited, and a text that ends early is told apart from one that is wrong.
//
// A Scanner walks over bytes that its caller holds and copies nothing; Values reads a stream of texts of any layout, one
// whole value at a time. It never builds more than what is asked for.
package jsonscan
