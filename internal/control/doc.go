// Package control keeps orgs, teams and credentials. It owns the tables org, team, user_account, service_credential,
// api_token, audit and change_counter. It never touches lake data.
//
// Promises: every mutation writes its audit row and raises the generation in its own transaction; secrets are stored as
// verifiers only and shown once.
package control
