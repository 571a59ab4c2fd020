// Package token cuts SQL text into tokens and strings of statements, as the engine's scanner does: strings with and
// without escapes, dollar quotes, nested comments, quoted and Unicode identifiers.
//
// It promises that two texts that the engine reads alike give alike tokens, as far as the gate looks: identifiers are
// decoded and folded, comments and Unicode spaces are gone. It never fails: what cannot be read becomes an Other token, and
// the engine reports the mistake. It knows no grammar.
package token
