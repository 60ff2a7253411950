"""The last step of `import gradloom`: operators become methods, and the core gets the functions that it calls late."""
