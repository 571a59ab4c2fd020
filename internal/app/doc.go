// Package app puts the parts together: configuration, stores, and the components of the roles that a process has. It is
// the only package that imports all others, and App.Run is the whole system in one page. It owns the order of start and
// stop, the provisioning of warehouses, and the file that tells commands where the server is. It decides nothing about
// batches.
package app
