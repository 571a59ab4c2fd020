// Package warehouse is the front door of the orgs' lakes: a server that speaks the PostgreSQL protocol, one session per
// client, over engine connections that somebody else opens.
//
//	wire      one session: startup, login, queries, transactions
//	auth      principals and SCRAM
//	gate      what may run; gate/token reads SQL
//	sqlstate  errors as clients know them
//	value     types and values in both formats
//	duck      one engine connection by its C interface
//
// The server owns the port, the number of sessions, their cancel keys and their end. It never decides what is loaded, and
// it keeps nothing between two sessions.
package warehouse
