// Package auth knows who may use a warehouse: principals, what an Authenticator says of them, and SCRAM-SHA-256 (RFC 5802,
// RFC 7677) as PostgreSQL speaks it.
//
// A password is never seen or kept: a verifier in PostgreSQL's text form is all that is stored. A user that does not exist
// costs the same exchange as one that does, against a verifier made from a secret of the process, so that neither the
// answer nor its time tells the two apart.
package auth
