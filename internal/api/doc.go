// Package api serves the control plane and the queue over HTTP: routes under /api/v1, one file per resource, with their
// wire structs; health, readiness and the OpenAPI document. Handlers decode, call a store, and encode; every error has
// the body {"error":{"code","message","hint","request_id","details"}} and the status that the registry of codes gives.
// It never touches lake data.
//
// There is no login yet, so it answers loopback addresses only, and no page of another site can call it.
package api
